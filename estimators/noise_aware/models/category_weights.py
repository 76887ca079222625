"""A Bayesian log-linear model of categorical attributes: its prior, its posterior and its start.

``p(x) = exp(sum_t lambda_t h_t(x)) / Z`` over all cells (`category_cells`). For attributes i and j
of r_i and r_j labels,

    lambda_i  = g_i - sum_j lambda_ij c_j,   g_i  ~ N(0, sigma^2 / (r_i - 1)),
    lambda_ij ~ N(0, tau_ij^2 / sqrt((r_i - 1) (r_j - 1))),   log tau_ij ~ N(log tau, spread^2),

and c_j the estimated means of the contrasts of attribute j, so that pairs hardly move the margins.
The weights of a pair are equally likely in all directions, so the choice of contrasts does not
matter. See noise-aware.md, section 5.
"""

from __future__ import annotations

import numpy as np

from estimators.noise_aware import priors
from estimators.noise_aware.arrays import Flags, Floats, Singles
from estimators.noise_aware.models.category_cells import CategoryCells
from estimators.noise_aware.models.mode import Observed, find_mode
from estimators.numerics.sampling import choose


class CategoryWeights:
    """Chains of the posterior, drawn as one array; see `numerics.hamiltonian.Target`.

    Attributes:
        state: shape (chains, terms): g and lambda of pairs, of each chain.
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
        self._single = cells.singles[-1].stop
        widths = [own.stop - own.start for own in cells.singles]
        self._block = np.repeat(
            np.arange(len(cells.pairs)), [own.stop - own.start for own in cells.pairs.values()]
        )
        self._starts = np.array([own.start - self._single for own in cells.pairs.values()])
        self._count = np.bincount(self._block)
        # Prior deviations at sigma = 1 and tau_ij = 1.
        pairs = np.array([(widths[i] * widths[j]) ** -0.25 for i, j in cells.pairs])
        self._unit = np.concatenate([np.repeat(widths, widths) ** -0.5, pairs[self._block]])
        self._chart = self._charted(margins)
        # Memory for results, as new large arrays cost as much as what is computed.
        self._force: Singles | None = None
        self._sigma = np.full(chains, priors.FIELD_SCALE.median)
        self._common = np.full(chains, priors.BLOCK_WEIGHT.size)
        self._tau = np.full((chains, len(cells.pairs)), priors.BLOCK_WEIGHT.size)
        self.state = self._start(margins, chains)

    def _charted(self, margins: list[Floats]) -> Floats:
        """Return the matrix of lambda as a linear function of the state: shape (terms, terms)."""
        cells, chart = self._cells, np.eye(self._cells.terms)
        centres = [code.T @ margin for code, margin in zip(cells.codes, margins, strict=True)]
        for (i, j), own in cells.pairs.items():
            places = np.arange(own.start, own.stop).reshape(len(centres[i]), len(centres[j]))
            for a, row in enumerate(places):
                chart[cells.singles[i].start + a, row] -= centres[j]
            for b, column in enumerate(places.T):
                chart[cells.singles[j].start + b, column] -= centres[i]
        return chart

    def weights(self, state: Floats) -> Floats:
        """Return lambda of every term: shape (chains, terms) both."""
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
        """Return the likelihood's expected curvature, mean over up to 4 chains: (terms, terms)."""
        some = self.state[:4]
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
        """Draw the scales sigma, tau_ij and tau.

        Each is drawn given the state, which mixes well where noise is low. Then sigma or tau is
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
        """Draw tau_ij given the squares of its weights, shape (chains, pairs), then tau."""
        grid, spread = priors.BLOCK_WEIGHT.points, priors.BLOCK_WEIGHT_SPREAD
        away = np.log(grid) - np.log(self._common)[:, None]
        score = -0.5 * energy[:, :, None] / np.square(grid) - self._count[:, None] * np.log(grid)
        score -= 0.5 * np.square(away / spread)[:, None]
        self._tau[:] = grid[choose(self._random, score)]
        away = np.log(grid) - np.log(self._tau)[:, :, None]
        score = -0.5 * np.square(away / spread).sum(axis=1) + priors.BLOCK_WEIGHT.on_grid
        self._common[:] = grid[choose(self._random, score)]

    def _move(self, known: Singles) -> Singles:
        """Multiply sigma, or tau and all tau_ij, and their weights by a factor, in place.

        A Metropolis step; the tables afterwards are returned.
        """
        chains, pairs = len(self.state), bool(self._random.integers(2))
        own = slice(self._single, None) if pairs else slice(0, self._single)
        scale, prior = (
            (self._common, priors.BLOCK_WEIGHT) if pairs else (self._sigma, priors.FIELD_SCALE)
        )
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
        if pairs:
            self._tau[taken] *= factor[taken, None]
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
        for own, code, margin in zip(cells.singles, cells.codes, margins, strict=True):
            first[own] = code.T @ np.log(margin) / len(margin)
        observed = Observed(
            self._estimates, self._precision, cells.tables, cells.moments, cells.slopes
        )
        wide = np.where(np.arange(cells.terms) < self._single, 2.0, 0.2) * self._unit
        mode = find_mode(observed, 1.0 / np.square(wide), first)
        state = mode.copy()
        state[: self._single] += (mode - self._chart @ mode)[: self._single]
        square = np.square(state / self._unit)
        self._sigma[:] = max(float(np.sqrt(square[: self._single].mean())), 0.1)
        sizes = np.sqrt(np.add.reduceat(square[self._single :], self._starts) / self._count)
        self._tau[:] = np.clip(sizes, 0.03, 0.5)
        self._common[:] = np.exp(np.log(self._tau).mean(axis=1))
        return np.tile(state, (chains, 1))


def _impossible(tables: Singles) -> Flags:
    """Return whether weights were too large for a table: shape (chains,)."""
    return np.asarray(~tables.any(axis=(1, 2)))
