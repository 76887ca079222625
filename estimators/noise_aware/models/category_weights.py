"""A Bayesian log-linear model of categorical attributes: its prior, its posterior and its start.

``p(x) = exp(sum_S sum_t g_St prod_i (h_it(x_i) - c_i)) / Z`` over all cells, with the terms of
`category_cells` and c_i the estimated means of the contrasts of attribute i: so larger sets of
attributes hardly move the moments of smaller ones. With r_i labels,

    g_i ~ N(0, sigma^2 / (r_i - 1)),
    g_S ~ N(0, tau_S^2 / prod_i sqrt(r_i - 1)),   log tau_S ~ N(log tau_|S|, spread^2)

for sets of two and three. The weights of a set are equally likely in all directions, so the choice
of contrasts does not matter. See noise-aware.md, section 5.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np

from calmstream.estimators.noise_aware import priors
from calmstream.estimators.noise_aware.arrays import Flags, Floats, Singles
from calmstream.estimators.noise_aware.models.category_cells import CategoryCells
from calmstream.estimators.noise_aware.models.mode import Observed, find_mode
from calmstream.estimators.numerics.grids import LogGrid
from calmstream.estimators.numerics.sampling import choose

MANY_TERMS = 300
"""Number of terms above which two chains give the expected curvature."""


class CategoryWeights:
    """Chains of the posterior, drawn as one array; see `numerics.hamiltonian.Target`.

    Attributes:
        state: shape (chains, terms): g of each chain.
    """

    def __init__(
        self,
        cells: CategoryCells,
        estimates: Floats,
        precision: Floats,
        margins: list[Floats],
        chains: int,
        random: np.random.Generator,
    ) -> None:
        """Start every chain near the posterior's mode.

        Args:
            cells: the terms.
            estimates: of their means, shape (terms,).
            precision: inverse variances of the estimates, 0 where there is none.
            margins: per attribute probabilities of its labels, none of them 0.
            chains: their number.
            random: source of the draws.
        """
        self._cells, self._random = cells, random
        self._estimates, self._precision = estimates, precision
        widths = np.array(cells.cardinalities) - 1
        self._single = int(widths.sum())
        larger = [own for own in cells.sets if len(own) > 1]
        self._order = np.array([len(own) for own in larger])
        self._starts = np.array([cells.sets[own].start - self._single for own in larger])
        self._count = np.array([cells.sets[own].stop - cells.sets[own].start for own in larger])
        self._block = np.repeat(np.arange(len(larger)), self._count)
        # Prior deviations at sigma = 1 and tau_S = 1.
        units = np.array([float(widths[list(own)].prod()) ** -0.25 for own in larger])
        self._unit = np.concatenate([np.repeat(widths, widths) ** -0.5, units[self._block]])
        self._chart = self._charted(margins)
        # Memory for results, as new large arrays cost as much as what is computed.
        self._force: Singles | None = None
        self._sigma = np.full(chains, priors.FIELD_SCALE.median)
        sizes = np.array([prior.size for prior in priors.SET_WEIGHTS])
        self._common = np.tile(sizes[: self._order.max() - 1], (chains, 1))
        self._tau = np.tile(sizes[self._order - 2], (chains, 1))
        self.state = self._start(margins, chains)

    def _charted(self, margins: list[Floats]) -> Floats:
        """Return the matrix from g to weights of terms that are not centred: (terms, terms)."""
        cells, chart = self._cells, np.eye(self._cells.terms)
        centres = [code.T @ margin for code, margin in zip(cells.codes, margins, strict=True)]
        for own, columns in cells.sets.items():
            for size in range(1, len(own)):
                for kept in combinations(own, size):
                    block = np.ones((1, 1), np.float64)
                    for i in own:
                        side = np.eye(len(centres[i])) if i in kept else -centres[i][None]
                        block = np.asarray(np.kron(block, side), np.float64)
                    chart[cells.sets[kept], columns] = block
        return chart

    def weights(self, state: Floats) -> Floats:
        """Return the weights of terms that are not centred: shape (chains, terms) both."""
        return np.asarray(state @ self._chart.T)

    def density(
        self, state: Floats, known: Singles | None = None
    ) -> tuple[Floats, Floats, Singles]:
        """Return log posterior (chains,), gradient (chains, terms) and the tables.

        ``known`` are the tables, if they have been computed before. Cost: one table of each chain,
        and the matrix products for moments and force.
        """
        variance = np.square(self._scales())
        tables = self._cells.tables(self.weights(state)) if known is None else known
        theta = self._cells.moments(tables)
        gap = self._estimates - theta
        pull = self._precision * gap
        value = -0.5 * ((pull * gap).sum(axis=1) + (np.square(state) / variance).sum(axis=1))
        self._force = force = self._cells.energy(pull, self._force, -(pull * theta).sum(axis=1))
        force *= tables
        value[_impossible(tables)] = -np.inf
        gradient = self._cells.moments(force) @ self._chart - state / variance
        return value, np.asarray(gradient), tables

    def curvature(self) -> Floats:
        """Return the likelihood's expected curvature, a mean over chains: (terms, terms).

        There are at most 4 chains, and fewer of many terms, as the cost is their cube.
        """
        some = self.state[: 4 if self._cells.terms <= MANY_TERMS else 2]
        _, slope = self._cells.slopes(self._cells.tables(self.weights(some)))
        slope *= np.sqrt(self._precision)[:, None]
        slope = slope.reshape(-1, self._cells.terms)
        return np.asarray(self._chart.T @ (slope.T @ slope / len(some)) @ self._chart)

    def prior_curvature(self) -> Floats:
        """Return the prior's diagonal curvature given each chain's scales: (chains, terms)."""
        return np.asarray(1.0 / np.square(self._scales()))

    def _scales(self) -> Floats:
        """Return prior deviations: shape (chains, terms)."""
        singles = np.repeat(self._sigma[:, None], self._single, axis=1)
        own = np.concatenate([singles, self._tau[:, self._block]], axis=1)
        return np.asarray(own * self._unit, np.float64)

    def draw_scales(self, known: Singles) -> Singles:
        """Draw the scales sigma, tau_S and tau of each size.

        Each is drawn given the state, which mixes well where noise is low. Then sigma or a tau is
        drawn together with the state, which mixes well where it is high, but takes a table.
        ``known`` are the tables of the state; those afterwards are returned.
        """
        square = np.square(self.state / self._unit)
        grid = priors.FIELD_SCALE.points
        energy = square[:, : self._single].sum(axis=1)
        score = -0.5 * energy[:, None] / np.square(grid) - self._single * np.log(grid)
        self._sigma[:] = grid[choose(self._random, score + priors.FIELD_SCALE.on_grid)]
        self._draw_taus(np.add.reduceat(square[:, self._single :], self._starts, axis=1))
        return self._move(known)

    def _draw_taus(self, energy: Floats) -> None:
        """Draw each tau_S given the squares of its weights, shape (chains, sets), then each tau."""
        for number, prior in enumerate(priors.SET_WEIGHTS[: self._common.shape[1]]):
            own, grid = self._order == number + 2, prior.points
            away = np.log(grid) - np.log(self._common[:, number, None])
            score = -0.5 * energy[:, own, None] / np.square(grid)
            score -= self._count[own, None] * np.log(grid)
            score -= 0.5 * np.square(away / priors.SET_WEIGHT_SPREAD)[:, None]
            self._tau[:, own] = grid[choose(self._random, score)]
            away = np.log(grid) - np.log(self._tau[:, own, None])
            score = -0.5 * np.square(away / priors.SET_WEIGHT_SPREAD).sum(axis=1) + prior.on_grid
            self._common[:, number] = grid[choose(self._random, score)]

    def _move(self, known: Singles) -> Singles:
        """Multiply sigma, or a tau and all its tau_S, and their weights by a factor, in place.

        A Metropolis step; the tables afterwards are returned.
        """
        chains, size = len(self.state), int(self._random.integers(1 + self._common.shape[1]))
        sets = self._order == size + 1  # none for sigma
        own = np.concatenate([np.full(self._single, not size), sets[self._block]])
        scale = self._common[:, size - 1] if size else self._sigma
        prior: LogGrid = priors.SET_WEIGHTS[size - 1] if size else priors.FIELD_SCALE
        # The best step of the scale's logarithm depends on the noise, so each is tried at times.
        steps = np.array([0.3, 1.0, 2.5])
        chosen = steps[self._random.integers(steps.size, size=chains)]
        factor = np.exp(chosen * self._random.normal(size=chains))
        state, new = self.state.copy(), scale * factor
        state[:, own] *= factor[:, None]
        found = self._cells.tables(self.weights(state))
        gain = self._likelihood(found) - self._likelihood(known)
        gain[_impossible(found)] = -np.inf
        gain += prior.log_density(new) - prior.log_density(scale)
        taken = np.log(self._random.random(chains)) < gain
        taken &= (new > prior.low) & (new < prior.high)
        self.state[taken], scale[taken] = state[taken], new[taken]
        self._tau[np.ix_(taken, sets)] *= factor[taken, None]
        known = known.copy() if taken.any() else known
        known[taken] = found[taken]
        return known

    def _likelihood(self, tables: Singles) -> Floats:
        """Return the log likelihood of each chain."""
        square = np.square(self._estimates - self._cells.moments(tables))
        return np.asarray(-0.5 * (square @ self._precision), np.float64)

    def _start(self, margins: list[Floats], chains: int) -> Floats:
        """Return the mode as every chain's state, and set the scales to fit it."""
        cells, first = self._cells, np.zeros(self._cells.terms)
        for i, (code, margin) in enumerate(zip(cells.codes, margins, strict=True)):
            first[cells.sets[i,]] = code.T @ np.log(margin) / len(margin)
        observed = Observed(
            self._estimates, self._precision, cells.tables, cells.moments, cells.slopes
        )
        sizes = np.array([2.0, 0.2, 0.1])  # prior deviations by order
        order = np.concatenate([np.ones(self._single, np.intp), self._order[self._block]])
        mode = find_mode(observed, 1.0 / np.square(sizes[order - 1] * self._unit), first)
        state = np.linalg.solve(self._chart, mode)
        square = np.square(state / self._unit)
        self._sigma[:] = max(float(np.sqrt(square[: self._single].mean())), 0.1)
        found = np.sqrt(np.add.reduceat(square[self._single :], self._starts) / self._count)
        self._tau[:] = np.clip(found, 0.03, 0.5)
        for number in range(self._common.shape[1]):
            own = self._order == number + 2
            self._common[:, number] = np.exp(np.log(self._tau[:, own]).mean(axis=1))
        return np.tile(state, (chains, 1))


def _impossible(tables: Singles) -> Flags:
    """Return whether weights were too large for a table: shape (chains,)."""
    return np.asarray(~tables.any(axis=(1, 2)))
