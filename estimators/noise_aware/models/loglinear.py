"""A Bayesian log-linear model of binary attributes: its prior, its posterior, its first guess.

``p(x) = exp(sum_S lambda_S chi_S(x)) / Z`` over all cells (`parities`). Every table is valid, and
that is worth much where data are sparse: that no cell is negative bounds what noisy means and pairs
can be together. With the unbiased estimates t_S ~ N(theta_S(lambda), v_S) of known v,

    lambda_i                = g_i - sum_j lambda_ij c_j,   g_i ~ mu + sigma T,  mu ~ N(0, 1)
    lambda_ij               = m + a_i + a_j + r_ij,   a_i ~ N(0, alpha^2),  m ~ N(0, (2 alpha)^2)
    r_ij, lambda_ijk, ...   ~ tau_order T,   T Student's t of nu_order degrees of freedom,

so what pairs share is how sociable attributes are, residuals are mostly small, and how much of each
there is (mu, sigma, alpha, tau), and how heavy tails are (nu), is drawn with everything else. With
c_j the estimated mean of attribute j, pairs hardly move the margins, which are g's. The priors of
alpha and of tau of order two are even, so that intervals stay wide where data cannot tell; those of
the taus of higher orders are even on the logarithmic scale.

Estimates of higher orders than those modelled can be read too. What they are estimates of is then
more than lambda foretells, so there t_S ~ N(theta_S(lambda), v_S + delta^2), and delta is drawn
like a tau: where it is small, they say as much about lambda as any estimate.
"""

from __future__ import annotations

from math import lgamma, log
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from estimators.noise_aware.sampling.draws import choose

if TYPE_CHECKING:
    from estimators.noise_aware.models.parities import Parities, Singles

Floats = NDArray[np.float64]

SIZES = (0.1, 0.05, 0.025)
"""Prior sizes of interactions of orders 2, 3 and 4 (half-normal)."""

SHARED_SIZE = 0.1
"""Prior size of alpha (half-normal)."""

BEYOND_SIZE = 0.03
"""Prior size of delta (half-normal)."""

CENTRE = 1.0
"""Prior standard deviation of mu."""

FIELD = 0.5
"""Prior median of sigma."""

FIELD_SPREAD = 1.0
"""Prior standard deviation of its logarithm."""

FREEDOMS = np.array([3.0, 6.0, 12.0, 24.0])
"""Degrees of freedom that Student's law may have, all as likely: with few of them some interactions
may be large among many small ones."""

_NORM = np.array([lgamma((f + 1.0) / 2.0) - lgamma(f / 2.0) - 0.5 * log(f) for f in FREEDOMS])
_FIELDS = np.exp(np.linspace(np.log(0.05), np.log(2.5), 30))
_SCALES = np.exp(np.linspace(np.log(2e-3), np.log(0.8), 40))
_LEAST, _MOST = 1e-3, 2.5
_STEPS_OF_SIZES = (0.3, 1.0, 2.5)
"""Of the logarithm of a size, tried one after another: which fits depends on noise."""

_MODE_FIELD = 2.0
_MODE_SIZES = (0.2, 0.1, 0.05)
_EASE = 3
_STEPS = 25
_LOOKED_AT = 4
_STEP_LIMIT = 1.0
_HALVINGS = 6
_SETTLED = 0.1


class LogLinear:
    """Chains of the posterior side by side.

    The state of a chain, shape (``size``,): g - mu, r and higher lambda, a, m, mu. A trajectory
    moves mu too: given the g it hardly can.

    Attributes:
        parities: all sets whose interactions are modelled.
        observed: all sets whose estimates are read; the first of them are those of `parities`.
        state: shape (chains, size).
        size: dimensions of a state.
        delta: shape (chains,): standard deviation, from what lambda foretells, of moments that are
            observed and not modelled; where there are none it means nothing.
    """

    def __init__(
        self,
        parities: Parities,
        seen: Floats,
        precision: Floats,
        chains: int,
        random: np.random.Generator,
        observed: Parities | None = None,
    ) -> None:
        """Start every chain near the posterior's mode.

        Args:
            parities: all sets whose interactions are modelled.
            seen: shape (observed sets,): estimates.
            precision: shape (observed sets,): inverse variances, 0 where nothing is known.
            chains: how many.
            random: what draws come from.
            observed: of the same attributes and the same or a higher order; None: `parities`.
        """
        self.parities, self.observed, self._seen = parities, observed or parities, seen
        self._random = random
        order = parities.sets.order
        self._d, self._sets, self._order = parities.sets.attributes, order.size, order
        members = np.array([s for s in parities.sets.members if len(s) == 2]).reshape(-1, 2)
        self._pairs = slice(self._d, self._d + len(members))
        self._shared = np.zeros((len(members), self._d + 1))
        self._shared[np.arange(len(members))[:, None], members] = 1.0
        self._shared[:, -1] = 1.0
        self.size = self._sets + self._d + 2
        self._lay_out_precision(precision, chains)
        self._chart = self._charted(members)
        self._sigma = np.full(chains, FIELD)
        self._alpha = np.full(chains, 0.1)
        self._tau = np.full((chains, max(int(order.max()) - 1, 1)), 0.1)
        self._freedom = np.full((chains, int(order.max())), FREEDOMS[1])
        self.state = self._start(chains)

    def _lay_out_precision(self, precision: Floats, chains: int) -> None:
        """What each chain takes for precisions, and what they are and score at every delta."""
        beyond = precision[self._sets :]
        rows = chains if beyond.size else 1  # one where no delta tells the chains apart
        self._precision = np.tile(precision, (rows, 1))
        self._by_delta = beyond / (1.0 + beyond * np.square(_SCALES)[:, None])
        known = self._by_delta[:, beyond > 0]
        self._delta_score = 0.5 * (np.log(known).sum(axis=1) - np.square(_SCALES / BEYOND_SIZE))
        self._set_delta(np.full(rows, np.searchsorted(_SCALES, BEYOND_SIZE)))

    def _set_delta(self, places: NDArray[np.intp]) -> None:
        """Each chain's delta is the one at its place in the grid."""
        self.delta = _SCALES[places]
        self._precision[:, self._sets :] = self._by_delta[places]

    def _charted(self, members: NDArray[np.intp]) -> Floats:
        """Lambda as a linear function of the state: shape (sets, size)."""
        centre = np.tanh(self._first_fields())
        chart = np.eye(self._sets, self.size)
        chart[: self._d, -1] = 1.0
        chart[self._pairs, self._sets : -1] = self._shared
        for row, (i, j) in zip(chart[self._pairs].copy(), members, strict=True):
            chart[i] -= centre[j] * row
            chart[j] -= centre[i] * row
        return chart

    def _first_fields(self) -> Floats:
        """Single attributes' lambda if they were independent, from shrunk estimates."""
        precision = self._precision[0, : self._d]
        known = precision / (precision + 3.0)
        return np.asarray(np.arctanh(np.clip(self._seen[: self._d] * known, -0.97, 0.97)))

    def weights(self, state: Floats) -> Floats:
        """Lambda of every set: shape (chains, size) to (chains, sets)."""
        return np.asarray(state @ self._chart.T)

    def density(self, state: Floats) -> tuple[Floats, Floats, Singles]:
        """Logarithm of the posterior (chains,), its gradient (chains, size) and the tables.

        Cost: one table of each chain, and products of matrices that make the observed moments and
        the force on every cell: 0.2 ms for 16 attributes and pairs, 0.4 ms where triples are
        observed.
        """
        prior, gradient = self._prior(state)
        tables = self.parities.tables(self.weights(state))
        theta = self.observed.moments(tables)
        pull = self._precision * (self._seen - theta)
        value = prior - 0.5 * (pull * (self._seen - theta)).sum(axis=1)
        force = self.observed.energy(pull)
        force -= (pull * theta).sum(axis=1).astype(np.float32)[:, None, None]
        force *= tables
        return value, gradient + self.parities.moments(force) @ self._chart, tables

    def curvature(self) -> Floats:
        """Expected curvature of minus the log likelihood, mean over a few chains: (size, size)."""
        some = self.state[:_LOOKED_AT]
        tables = self.parities.tables(self.weights(some))
        _, slope = self.observed.slopes(tables, self._sets)
        wide, precision = slope @ self._chart, self._precision[:_LOOKED_AT, :, None]
        return np.asarray(((wide * precision).transpose(0, 2, 1) @ wide).mean(axis=0))

    def prior_curvature(self) -> Floats:
        """The same of the prior, which is diagonal, given each chain's sizes: (chains, size)."""
        out = np.square(self._prior_scales())
        freedom = self._freedom[:, self._order - 1]
        out[:, : self._sets] *= (freedom + 3.0) / (freedom + 1.0)
        return np.asarray(1.0 / out)

    def _prior_scales(self) -> Floats:
        singles = np.repeat(self._sigma[:, None], self._d, axis=1)
        shared = np.repeat(self._alpha[:, None], self._d + 1, axis=1)
        shared[:, -1] *= 2.0
        taus, centre = self._tau[:, self._order[self._d :] - 2], np.full((len(singles), 1), CENTRE)
        return np.concatenate([singles, taus, shared, centre], axis=1)

    def _prior(self, state: Floats) -> tuple[Floats, Floats]:
        """Logarithm of the prior of the states, up to what hyperparameters alone decide."""
        scale = self._prior_scales()
        z = state / scale
        heavy = slice(0, self._sets)  # of Student's law
        gradient, value = -z / scale, 0.5 * np.square(z)
        square, freedom = np.square(z[:, heavy]), self._freedom[:, self._order - 1]
        value[:, heavy] = 0.5 * (freedom + 1.0) * np.log1p(square / freedom)
        gradient[:, heavy] *= (freedom + 1.0) / (freedom + square)
        return -value.sum(axis=1), gradient

    def _gap(self, weights: Floats) -> Floats:
        """Estimates less moments: shape (batch, sets) to (batch, observed sets)."""
        return self._seen - self.observed.moments(self.parities.tables(weights))

    def _likelihood(self, gap: Floats) -> Floats:
        """Its logarithm, shape (chains,), up to what delta alone decides."""
        square, own = np.square(gap), self._sets
        beyond = (square[:, own:] * self._precision[:, own:]).sum(axis=1)
        return np.asarray(-0.5 * (square[:, :own] @ self._precision[0, :own] + beyond))

    def _draw_delta(self, gap: Floats) -> None:
        """Given what is left of the estimates: exact on the grid."""
        left = np.square(gap[:, self._sets :]) @ self._by_delta.T
        self._set_delta(choose(self._random, self._delta_score - 0.5 * left))

    def draw_sizes(self) -> None:
        """Draw delta, the nus, sigma, the taus and alpha.

        Sizes are drawn given the state, then with the state along: the first alone mixes badly
        where noise is high, the second where it is low.
        """
        gap = self._gap(self.weights(self.state))
        if self._sets < self._seen.size:
            self._draw_delta(gap)
        likelihood = self._likelihood(gap)
        for order in range(1, int(self._order.max()) + 1):
            own = np.nonzero(self._order == order)[0]
            size = self._sigma if order == 1 else self._tau[:, order - 2]
            self._draw_size(self.state[:, None, own], size, order)
            likelihood = self._move(own, size, order, likelihood)
        own = np.arange(self._sets, self.size - 1)
        energy = np.square(self.state[:, own]).sum(axis=1) - 0.75 * np.square(self.state[:, -2])
        score = -0.5 * energy[:, None] / np.square(_SCALES) - own.size * np.log(_SCALES)
        self._alpha[:] = _SCALES[choose(self._random, score + _size_prior(_SCALES, 0))]
        self._move(own, self._alpha, 0, likelihood)

    def _draw_size(self, state: Floats, size: Floats, order: int) -> None:
        """Nu and a size of one order given the state, shape (chains, 1, sets), in place."""
        count, grid = state.shape[2], _SCALES if order > 1 else _FIELDS
        score = _student(state / size[:, None, None], FREEDOMS[:, None]) + count * _NORM
        freedom = FREEDOMS[choose(self._random, score)]
        self._freedom[:, order - 1] = freedom
        score = _student(state / grid[:, None], freedom[:, None, None])
        score += _size_prior(grid, order) - count * np.log(grid)
        size[:] = grid[choose(self._random, score)]

    def _move(self, own: NDArray[np.intp], scale: Floats, order: int, likelihood: Floats) -> Floats:
        """Metropolis steps that stretch a part of the state with its scale, which is changed."""
        for step in _STEPS_OF_SIZES if own.size else ():
            factor = np.exp(step * self._random.normal(size=scale.size))
            state, new = self.state.copy(), scale * factor
            state[:, own] *= factor[:, None]
            found = self._likelihood(self._gap(self.weights(state)))
            gain = found - likelihood + _size_prior(new, order) - _size_prior(scale, order)
            taken = (
                (np.log(self._random.random(scale.size)) < gain) & (new > _LEAST) & (new < _MOST)
            )
            self.state[taken] = state[taken]
            scale[taken] = new[taken]
            likelihood = np.where(taken, found, likelihood)
        return likelihood

    def _start(self, chains: int) -> Floats:
        """The mode, with sizes as they are there."""
        mode = self._mode()
        pairs = mode[self._pairs]
        ridge = np.diag(np.append(np.ones(self._d), 0.1))
        shared = np.linalg.solve(self._shared.T @ self._shared + ridge, self._shared.T @ pairs)
        state = np.concatenate([mode, shared, [0.0]])
        state[self._pairs] -= self._shared @ shared
        state[: self._d] += mode[: self._d] - (self._chart @ state)[: self._d]
        state[-1] = state[: self._d].mean()
        state[: self._d] -= state[-1]
        self._sigma[:] = max(float(state[: self._d].std()), 0.1)
        self._alpha[:] = max(float(shared[:-1].std()), 0.02)
        for order in range(2, int(self._order.max()) + 1):
            size = np.sqrt(np.square(state[: self._sets][self._order == order]).mean())
            self._tau[:, order - 2] = np.clip(size, 0.03, 0.3)
        return np.tile(state, (chains, 1))

    def _mode(self) -> Floats:
        """Lambda by Gauss-Newton steps under a fixed prior, the statistics eased in."""
        prior = 1.0 / np.square(np.array([_MODE_FIELD, *_MODE_SIZES])[self._order - 1])
        lam = np.zeros(self._sets)
        lam[: self._d] = self._first_fields()
        for number in range(_STEPS):
            weight = self._precision[0] * 4.0 ** -max(_EASE - number, 0)
            own, slope = self.observed.slopes(self.parities.tables(lam[None]), self._sets)
            hessian = (slope[0] * weight[:, None]).T @ slope[0] + np.diag(prior)
            by_weight = np.ascontiguousarray(slope[0].T)  # a sum's order decides its last bit
            gradient = by_weight @ (weight * (own[0] - self._seen)) + prior * lam
            step = np.linalg.solve(hessian, gradient)
            moved = float(np.abs(step).max())
            lam = self._descend(lam, step * min(_STEP_LIMIT / max(moved, 1e-9), 1.0), weight, prior)
            if number > _EASE and moved < _SETTLED:
                break
        return lam

    def _descend(self, lam: Floats, step: Floats, weight: Floats, prior: Floats) -> Floats:
        """The longest of the step, its half, quarter and so on that does not raise the loss."""
        lengths = np.append(0.5 ** np.arange(_HALVINGS), 0.0)
        tried = lam - lengths[:, None] * step
        gap = self._gap(tried)
        loss = (weight * np.square(gap)).sum(axis=1) + (prior * np.square(tried)).sum(axis=1)
        return np.asarray(tried[np.argmax(loss <= loss[-1] * (1.0 + 1e-6) + 1e-6)])


def _student(z: Floats, freedom: Floats) -> Floats:
    """Logarithm of Student's density but for `_NORM`, summed along the last axis."""
    logs = (freedom + 1.0) * np.log1p(np.square(z) / freedom)
    return np.asarray(-0.5 * logs.sum(axis=-1))


def _size_prior(scale: Floats, order: int) -> Floats:
    """Logarithm of the density, on the logarithmic scale, of sigma or a tau; 0: of alpha."""
    if order == 1:
        return np.asarray(-0.5 * np.square(np.log(scale / FIELD) / FIELD_SPREAD))
    size = SIZES[order - 2] if order else SHARED_SIZE
    even = np.log(scale) if order in (0, 2) else 0.0
    return np.asarray(even - 0.5 * np.square(scale / size))
