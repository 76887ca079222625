"""A Bayesian log-linear model of binary attributes: its prior, its posterior and its start.

``p(x) = exp(sum_S lambda_S chi_S(x)) / Z`` over all cells (`parities`), with

    lambda_i                = g_i - sum_j lambda_ij c_j,   g_i ~ mu + sigma T,  mu ~ N(0, 1)
    lambda_ij               = m + a_i + a_j + r_ij,   a_i ~ N(0, alpha^2),  m ~ N(0, (2 alpha)^2)
    r_ij, lambda_ijk, ...   ~ tau_order T,   T Student's t of nu_order degrees of freedom,

and c_j the estimated mean of attribute j, so that pairs hardly move the margins. Moments of orders
that are read but not modelled are normal about the model's with deviation delta. See
noise-aware.md, section 5.
"""

from __future__ import annotations

from math import lgamma, log

import numpy as np

from calmstream.estimators.noise_aware import priors
from calmstream.estimators.noise_aware.arrays import Flags, Floats, Indices, Singles
from calmstream.estimators.noise_aware.models.mode import Observed, find_mode
from calmstream.estimators.noise_aware.models.parities import Parities
from calmstream.estimators.numerics.grids import LogGrid
from calmstream.estimators.numerics.sampling import choose


class LogLinear:
    """Chains of the posterior, drawn as one array.

    Attributes:
        state: shape (chains, size): g - mu, r and higher lambda, a, m, mu of each chain.
        parities: the sets that are modelled.
        observed: the sets whose estimates are read, the modelled ones first.
        delta: shape (chains,): deviation of moments that are read but not modelled.
    """

    def __init__(
        self,
        parities: Parities,
        estimates: Floats,
        precision: Floats,
        chains: int,
        random: np.random.Generator,
        observed: Parities,
    ) -> None:
        """Start every chain near the posterior's mode.

        ``estimates`` and ``precision`` have shape (observed sets,); precision 0 stands for no
        estimate. ``observed`` has the same or a higher order than ``parities``.
        """
        self.parities, self.observed = parities, observed
        self._estimates, self._random = estimates, random
        order = parities.sets.order
        self._d, self._sets, self._order = parities.sets.attributes, order.size, order
        members = np.array([s for s in parities.sets.members if len(s) == 2]).reshape(-1, 2)
        self._pairs = slice(self._d, self._d + len(members))
        self._common = np.zeros((len(members), self._d + 1))
        self._common[np.arange(len(members))[:, None], members] = 1.0
        self._common[:, -1] = 1.0
        self.size = self._sets + self._d + 2
        # Memory for results, as new large arrays cost as much as what is computed.
        self._force: Singles | None = None
        self._tables: Singles | None = None
        self._lay_out_precision(precision, chains)
        self._chart = self._charted(members)
        self._sigma = np.full(chains, priors.FIELD_SCALE.median)
        self._alpha = np.full(chains, 0.1)
        self._tau = np.full((chains, max(int(order.max()) - 1, 1)), 0.1)
        self._freedom = np.full((chains, int(order.max())), priors.TAIL_FREEDOMS[1])
        self.state = self._start(chains)

    def _lay_out_precision(self, precision: Floats, chains: int) -> None:
        """Set the precisions of each chain, and what they are and contribute at every delta."""
        grid, beyond = priors.EXCESS.points, precision[self._sets :]
        rows = chains if beyond.size else 1  # one row where no delta distinguishes the chains
        self._precision = np.tile(precision, (rows, 1))
        self._by_delta = beyond / (1.0 + beyond * np.square(grid)[:, None])
        known = self._by_delta[:, beyond > 0]
        self._delta_score = 0.5 * (np.log(known).sum(axis=1) - np.square(grid / priors.EXCESS.size))
        self._set_delta(np.full(rows, np.searchsorted(grid, priors.EXCESS.size)))

    def _set_delta(self, places: Indices) -> None:
        """Set each chain's delta to the one at its place in the grid."""
        self.delta = priors.EXCESS.points[places]
        self._precision[:, self._sets :] = self._by_delta[places]

    def _charted(self, members: Indices) -> Floats:
        """Return the matrix of lambda as a linear function of the state: shape (sets, size)."""
        centre = np.tanh(self._first_fields())
        chart = np.eye(self._sets, self.size)
        chart[: self._d, -1] = 1.0
        chart[self._pairs, self._sets : -1] = self._common
        for row, (i, j) in zip(chart[self._pairs].copy(), members, strict=True):
            chart[i] -= centre[j] * row
            chart[j] -= centre[i] * row
        return chart

    def _first_fields(self) -> Floats:
        """Return lambda of single attributes as if they were independent, from shrunk estimates."""
        precision = self._precision[0, : self._d]
        known = precision / (precision + 3.0)
        return np.asarray(np.arctanh(np.clip(self._estimates[: self._d] * known, -0.97, 0.97)))

    def weights(self, state: Floats) -> Floats:
        """Return lambda of every set: shape (chains, size) to (chains, sets)."""
        return np.asarray(state @ self._chart.T)

    def density(
        self, state: Floats, known: Singles | None = None
    ) -> tuple[Floats, Floats, Singles]:
        """Return log posterior (chains,), gradient (chains, size) and the compact tables.

        ``known`` are the compact tables, if they have been computed before. Cost: one table of each
        chain, and the matrix products for moments and force.
        """
        prior, gradient = self._prior(state)
        compact = self.parities.compact(self.weights(state)) if known is None else known
        tables = self._expanded(compact)
        theta = self.observed.moments(tables)
        pull = self._precision * (self._estimates - theta)
        value = prior - 0.5 * (pull * (self._estimates - theta)).sum(axis=1)
        self._force = force = self.observed.energy(pull, self._force, -(pull * theta).sum(axis=1))
        force *= tables
        value[_impossible(compact)] = -np.inf
        return value, gradient + self.parities.moments(force) @ self._chart, compact

    def _expanded(self, compact: Singles) -> Singles:
        """Return tables that the next call overwrites."""
        self._tables = self.parities.expand(compact, self._tables)
        return self._tables

    def curvature(self) -> Floats:
        """Return the likelihood's expected curvature, mean over up to 4 chains: (size, size)."""
        some = self.state[:4]
        tables = self._expanded(self.parities.compact(self.weights(some)))
        _, slope = self.observed.slopes(tables, self._sets)
        slope *= np.sqrt(self._precision[:4, :, None])
        slope = slope.reshape(-1, self._sets)
        own = (slope.T @ slope) / len(some)
        return np.asarray(self._chart.T @ own @ self._chart)

    def prior_curvature(self) -> Floats:
        """Return the prior's diagonal curvature given each chain's scales: (chains, size)."""
        out = np.square(self._prior_scales())
        freedom = self._freedom[:, self._order - 1]
        out[:, : self._sets] *= (freedom + 3.0) / (freedom + 1.0)
        return np.asarray(1.0 / out)

    def _prior_scales(self) -> Floats:
        singles = np.repeat(self._sigma[:, None], self._d, axis=1)
        common = np.repeat(self._alpha[:, None], self._d + 1, axis=1)
        common[:, -1] *= 2.0
        taus = self._tau[:, self._order[self._d :] - 2]
        centre = np.full((len(singles), 1), priors.FIELD_CENTRE)
        return np.concatenate([singles, taus, common, centre], axis=1)

    def _prior(self, state: Floats) -> tuple[Floats, Floats]:
        """Return log prior of the states, up to a function of the scales, and its gradient."""
        scale = self._prior_scales()
        z = state / scale
        heavy = slice(0, self._sets)  # of Student's t
        gradient, value = -z / scale, 0.5 * np.square(z)
        square, freedom = np.square(z[:, heavy]), self._freedom[:, self._order - 1]
        value[:, heavy] = 0.5 * (freedom + 1.0) * np.log1p(square / freedom)
        gradient[:, heavy] *= (freedom + 1.0) / (freedom + square)
        return -value.sum(axis=1), gradient

    def _gap(self, tables: Singles) -> Floats:
        """Return estimates less moments: (batch, rows, columns) to (batch, observed sets)."""
        return self._estimates - self.observed.moments(tables)

    def _likelihood(self, gap: Floats) -> Floats:
        """Return the log likelihood up to a function of delta: shape (chains,)."""
        square, own = np.square(gap), self._sets
        beyond = (square[:, own:] * self._precision[:, own:]).sum(axis=1)
        return np.asarray(-0.5 * (square[:, :own] @ self._precision[0, :own] + beyond))

    def _draw_delta(self, gap: Floats) -> None:
        """Draw delta given the gaps of all estimates."""
        left = np.square(gap[:, self._sets :]) @ self._by_delta.T
        self._set_delta(choose(self._random, self._delta_score - 0.5 * left))

    def draw_scales(self, known: Singles) -> Singles:
        """Draw delta, degrees of freedom nu and the scales sigma, tau and alpha.

        Each scale is drawn given the state, which mixes well where noise is low. Then one of them
        is drawn together with the state, which mixes well where it is high, but takes a table.
        ``known`` are the compact tables of the state; those afterwards are returned.
        """
        gap = self._gap(self._expanded(known))
        if self._sets < self._estimates.size:
            self._draw_delta(gap)
        moves = []
        for order in range(1, int(self._order.max()) + 1):
            own = np.nonzero(self._order == order)[0]
            scale = self._sigma if order == 1 else self._tau[:, order - 2]
            prior = priors.FIELD_SCALE if order == 1 else priors.INTERACTION_SCALES[order - 2]
            self._draw_scale(self.state[:, None, own], scale, order, prior)
            moves.append((own, scale, prior))
        own, grid = np.arange(self._sets, self.size - 1), priors.SOCIABILITY.points
        energy = np.square(self.state[:, own]).sum(axis=1) - 0.75 * np.square(self.state[:, -2])
        score = -0.5 * energy[:, None] / np.square(grid) - own.size * np.log(grid)
        self._alpha[:] = grid[choose(self._random, score + priors.SOCIABILITY.on_grid)]
        moves.append((own, self._alpha, priors.SOCIABILITY))
        chosen = moves[int(self._random.integers(len(moves)))]
        return self._move(*chosen, known, self._likelihood(gap))

    def _draw_scale(self, state: Floats, scale: Floats, order: int, prior: LogGrid) -> None:
        """Draw nu and scale of one order given the state, shape (chains, 1, sets), in place."""
        count, grid, nus = state.shape[2], prior.points, priors.TAIL_FREEDOMS
        norm = np.array([lgamma((f + 1.0) / 2.0) - lgamma(f / 2.0) - 0.5 * log(f) for f in nus])
        score = _student(state / scale[:, None, None], nus[:, None]) + count * norm
        freedom = nus[choose(self._random, score)]
        self._freedom[:, order - 1] = freedom
        score = _student(state / grid[:, None], freedom[:, None, None])
        score += prior.on_grid - count * np.log(grid)
        scale[:] = grid[choose(self._random, score)]

    def _move(
        self, own: Indices, scale: Floats, prior: LogGrid, known: Singles, likelihood: Floats
    ) -> Singles:
        """Multiply a scale and what it scales by a random factor, in a Metropolis step, in place.

        ``own`` are its positions in a state. Compact tables and log likelihoods, shape (chains,),
        before it are given, the compact tables afterwards are returned.
        """
        if not own.size:
            return known
        # The best step of the scale's logarithm depends on the noise, so each is tried at times.
        steps = np.array([0.3, 1.0, 2.5])
        chosen = steps[self._random.integers(steps.size, size=scale.size)]
        factor = np.exp(chosen * self._random.normal(size=scale.size))
        state, new = self.state.copy(), scale * factor
        state[:, own] *= factor[:, None]
        found = self.parities.compact(self.weights(state))
        gain = self._likelihood(self._gap(self._expanded(found))) - likelihood
        gain[_impossible(found)] = -np.inf
        gain += prior.log_density(new) - prior.log_density(scale)
        taken = np.log(self._random.random(scale.size)) < gain
        taken &= (new > 1e-3) & (new < 2.5)
        self.state[taken], scale[taken] = state[taken], new[taken]
        known = known.copy() if taken.any() else known
        known[taken] = found[taken]
        return known

    def _start(self, chains: int) -> Floats:
        """Return the mode as every chain's state, and set the scales to fit it."""
        deviations = np.array([2.0, 0.2, 0.1, 0.05])  # prior deviations by order
        first = np.zeros(self._sets)
        first[: self._d] = self._first_fields()
        observed = Observed(
            self._estimates,
            self._precision[0],
            self.parities.tables,
            self.observed.moments,
            lambda tables: self.observed.slopes(tables, self._sets),
        )
        mode = find_mode(observed, 1.0 / np.square(deviations[self._order - 1]), first)
        pairs = mode[self._pairs]
        ridge = np.diag(np.append(np.ones(self._d), 0.1))
        common = np.linalg.solve(self._common.T @ self._common + ridge, self._common.T @ pairs)
        state = np.concatenate([mode, common, [0.0]])
        state[self._pairs] -= self._common @ common
        state[: self._d] += mode[: self._d] - (self._chart @ state)[: self._d]
        state[-1] = state[: self._d].mean()
        state[: self._d] -= state[-1]
        self._sigma[:] = max(float(state[: self._d].std()), 0.1)
        self._alpha[:] = max(float(common[:-1].std()), 0.02)
        for order in range(2, int(self._order.max()) + 1):
            size = np.sqrt(np.square(state[: self._sets][self._order == order]).mean())
            self._tau[:, order - 2] = np.clip(size, 0.03, 0.3)
        return np.tile(state, (chains, 1))


def _impossible(compact: Singles) -> Flags:
    """Return whether weights were too large for a table: shape (chains,)."""
    return np.asarray(~compact.reshape(len(compact), -1).any(axis=1))


def _student(z: Floats, freedom: Floats) -> Floats:
    """Return log densities of Student's t, up to a constant in z, summed along the last axis.

    ``freedom`` has length 1 along that axis. Logarithms are taken of products of eight factors,
    because a logarithm costs as much as many products.
    """
    factors = 1.0 + np.square(z) / freedom
    products = np.multiply.reduceat(factors, np.arange(0, factors.shape[-1], 8), axis=-1)
    return np.asarray(-0.5 * (freedom[..., 0] + 1.0) * np.log(products).sum(axis=-1))
