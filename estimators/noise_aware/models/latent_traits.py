"""Latent traits: a Bayesian model of the moments of any number of binary attributes.

Everyone has a few traits z that nobody sees, and given these attributes are independent (item
response theory; `mixture`):

    E[x_i | z] = tanh(a_i + b_i . z),   z ~ N(0, I);   estimates of moments, of known variances:
    first:  t_i   ~ N(theta_i, v_i),
    second: t_ij  ~ N(theta_ij + s_i s_j r_ij, v_ij),   r_ij ~ N(0, tau^2 kappa_ij^2),
    third:  t_ijk ~ N(theta_ijk, v_ijk + delta^2).

Whatever the parameters, what the traits foretell is a table without negative cells: that says much
where data are sparse. The fields are ``a_i ~ c + sigma T`` about a common centre c, T Student's;
the loadings

    b_iq ~ N(alpha_q beta_q, alpha_q^2),   beta_q ~ N(0, 2^2),

have a mean as well: often all attributes depend on one cause in one direction (how much one buys,
how ill one is), and that is one number, which all pairs together tell long before any of them can
be told from nothing: of 32 attributes that all go together, made for development, pairs have a
third to a half of the error they have without it. Correlations that traits do not explain, r, are
sparse (`residuals`), in units of the attributes' deviations s, which follow the margins while the
chains warm up and are fixed then. How far third moments are from the traits' is delta. All
these sizes are drawn with everything else; the priors of alpha are even on the logarithmic scale
down to where it stands for nothing: data without dependence must cost no more than the product of
their margins does. Where there is much noise so does the answer.

Drawn by Hamiltonian Monte Carlo; sizes from exact conditionals on grids, and alpha also together
with its loadings, as either alone mixes badly where there is much noise or little. The residuals
are integrated out (`posterior`). A few chains run side by side as one array; the generator's seed
is fixed, so equal tallies give equal answers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from estimators.noise_aware.models.loglinear import BEYOND_SIZE, CENTRE, FIELD, FIELD_SPREAD
from estimators.noise_aware.models.mixture import Gaps, Mixtures, Weights
from estimators.noise_aware.models.posterior import DRAWS, Estimates, Keep, Look, Posterior
from estimators.noise_aware.models.residuals import draw_sizes
from estimators.noise_aware.sampling.draws import choose
from estimators.noise_aware.sampling.hamiltonian import draw

if TYPE_CHECKING:
    from estimators.noise_aware.input.statistics import Statistics

Floats = NDArray[np.float64]

MAX_ATTRIBUTES = 128
"""Beyond it, whitening takes longer than it is worth: 1.7 s with 64 attributes, 3.4 s with 100 (8 s
where 1,024 triples are read), 17 s with 200."""

CHAINS = 4
TRAITS = 3
NODES = 3
"""Along each trait."""

WARM_UP, SWEEPS = 30, 45
LONG_SWEEPS = 150
"""Where the log-linear model, which takes longer, is fitted too (`joint`)."""

COMMON = 2.0
"""Prior size of beta."""

LARGEST_ALPHA = 0.5
"""Above it a loading becomes unlikely (half-normal cut of an even prior of log alpha)."""

FREEDOM = 6.0
"""Degrees of freedom of the fields' law."""

_LEAST_VARIANCE = 1e-4
_FOLLOW = 0.2
"""Share of a sweep in the running mean of s^2."""

_SEED = 20041203
_SCALES = np.exp(np.linspace(np.log(2e-4), np.log(2.5), 64))
_DELTA = np.exp(np.linspace(np.log(2e-3), np.log(0.3), 24))
_DELTA_PRIOR = np.log(_DELTA) - 0.5 * np.square(_DELTA / BEYOND_SIZE)
_FIELD_PRIOR = -0.5 * np.square(np.log(_SCALES / FIELD) / FIELD_SPREAD)
_ALPHA_PRIOR = -0.5 * np.square(_SCALES / LARGEST_ALPHA)
_STRETCHES = (0.3, 1.0, 2.5)
"""Steps of log alpha with its loadings along: which fits depends on noise, so one at random."""


def fit(statistics: Statistics, sweeps: int = SWEEPS) -> Posterior:
    """Posterior of first and second moments given estimates of moments up to the third.

    Args:
        statistics: of binary attributes.
        sweeps: that are kept.

    Cost: some 800 densities of `mixture`: 0.2 s for 16 attributes, 0.35 s for 32, 0.5 s where 1,024
    triples are read; twice that of `LONG_SWEEPS`.
    """
    random = np.random.default_rng(_SEED)
    model = Traits(statistics, random)
    seen, size = model.mixtures, model.mixtures.d
    i, j = np.indices((size, size)).reshape(2, -1)
    keep = Keep(Estimates(seen.seen_two, seen.noise_two, seen.known, (i, j)), random)
    for number, means in enumerate(draw(model, random, WARM_UP, sweeps)):
        keep.add(model.look(means), draw=number * DRAWS % sweeps < DRAWS)
    return keep.posterior()


class Traits:
    """Chains of the posterior.

    Attributes:
        mixtures: the moments.
        state: shape (chains, (1 + traits) (d + 1)): fields less their centre, loadings less their
            mean trait by trait, then centre and means.
    """

    def __init__(self, statistics: Statistics, random: np.random.Generator) -> None:
        """Start every chain at shrunk margins and hardly any dependence."""
        self.mixtures = Mixtures(statistics, TRAITS, NODES)
        self._random, d = random, self.mixtures.d
        self._own = (1 + TRAITS) * d
        precision = self.mixtures.precision
        shrunk = np.clip(self.mixtures.seen * precision / (precision + 3.0), -0.95, 0.95)
        self._variance, self._sweeps = 1.0 - np.square(shrunk), 0
        self._sigma = np.full(CHAINS, FIELD)
        self._alpha = np.full((CHAINS, TRAITS), 0.2)
        self._tau = np.full(CHAINS, 0.02)
        self._kappa2 = np.ones((CHAINS, d, d))
        self._delta = np.full(CHAINS, BEYOND_SIZE)
        variance = self.mixtures.noise_three + np.square(_DELTA)[:, None]
        self._by_delta, self._delta_cost = (1.0 / variance).T, np.log(variance).sum(axis=1)
        fields = np.arctanh(shrunk)
        self.state = np.zeros((CHAINS, self._own + 1 + TRAITS))
        self.state[:, :d] = fields - fields.mean()
        self.state[:, d : self._own] = 0.05 * random.normal(size=(CHAINS, TRAITS * d))
        self.state[:, self._own] = fields.mean()
        self._set_weights()

    def _residual(self) -> Floats:
        """Prior variances of what traits do not explain: (chains, d, d)."""
        sizes = self._kappa2 * np.square(self._tau)[:, None, None]
        return np.asarray(sizes * np.outer(self._variance, self._variance))

    def _set_weights(self) -> None:
        """Inverse variances of the estimates about what traits foretell."""
        m = self.mixtures
        two = np.where(m.known, 1.0 / (m.noise_two + self._residual()), 0.0)
        three = 1.0 / (m.noise_three + np.square(self._delta)[:, None])
        self._weights = Weights(m.precision, two, three)

    def look(self, means: Floats) -> Look:
        """What the sweep says that had these means given nodes."""
        one, two = self.mixtures.first_two(means)
        return Look(one, two, self._residual(), self._tau)

    def _parameters(self, state: Floats) -> Floats:
        """Fields and loadings: shape (chains, 1 + traits, d)."""
        own = state[:, : self._own].reshape(len(state), 1 + TRAITS, -1)
        return np.asarray(own + state[:, self._own :, None], np.float64)

    def density(self, state: Floats) -> tuple[Floats, Floats, Floats]:
        """Logarithm of the posterior, its gradient, and means given nodes; see `hamiltonian`."""
        value, slope, means = self.mixtures.density(self._parameters(state), self._weights)
        gradient = np.hstack([slope.reshape(len(state), -1), slope.sum(axis=2)])
        scale = self._prior_scales()
        z, fields = state / scale, slice(0, self.mixtures.d)
        square = np.square(z)
        z[:, fields] *= (FREEDOM + 1.0) / (FREEDOM + square[:, fields])
        square[:, fields] = (FREEDOM + 1.0) * np.log1p(square[:, fields] / FREEDOM)
        return value - 0.5 * square.sum(axis=1), gradient - z / scale, means

    def _prior_scales(self) -> Floats:
        d = self.mixtures.d
        fields, centre = np.repeat(self._sigma[:, None], d, axis=1), np.full((CHAINS, 1), CENTRE)
        loadings = np.repeat(self._alpha, d, axis=1)
        return np.hstack([fields, loadings, centre, COMMON * self._alpha])

    def prior_curvature(self) -> Floats:
        """Diagonal, of minus the log prior given the sizes; see `hamiltonian`."""
        out = np.square(self._prior_scales())
        out[:, : self.mixtures.d] *= (FREEDOM + 3.0) / (FREEDOM + 1.0)
        return np.asarray(1.0 / out)

    def curvature(self) -> Floats:
        """Of minus the log likelihood; see `hamiltonian`."""
        d = self.mixtures.d
        own = self.mixtures.curvature(self._parameters(self.state), self._weights)
        chart = np.hstack([np.eye(self._own), np.repeat(np.eye(1 + TRAITS), d, axis=0)])
        return np.asarray(chart.T @ own @ chart)

    def _gaps(self, state: Floats) -> Gaps:
        return self.mixtures.gaps(self.mixtures.given_nodes(self._parameters(state)))

    def draw_sizes(self) -> None:
        """Draw delta, tau, kappa, sigma and alpha."""
        gaps = self._gaps(self.state)
        self._sweeps += 1
        if self._sweeps <= WARM_UP:
            self._look_at_margins(self.mixtures.seen - gaps.one)
        if gaps.three.size:
            self._draw_delta(np.square(gaps.three))
        i, j = self.mixtures.pairs
        self._tau, chosen = draw_sizes(
            self._random,
            np.square(gaps.two[:, i, j]),
            self.mixtures.noise_two[i, j],
            (self._variance[i] * self._variance[j])[None],
            self._kappa2[:, i, j],
        )
        self._kappa2[:, i, j] = self._kappa2[:, j, i] = chosen
        self._set_weights()
        d = self.mixtures.d
        square = np.square(self.state[:, None, :d] / _SCALES[:, None])
        score = 0.5 * (FREEDOM + 1.0) * np.log1p(square / FREEDOM).sum(axis=2)
        self._sigma = _SCALES[choose(self._random, _FIELD_PRIOR - d * np.log(_SCALES) - score)]
        for q in range(TRAITS):
            own = self._sized(q)
            energy = np.square(self.state[:, own] / np.append(np.ones(d), COMMON)).sum(axis=1)
            score = 0.5 * energy[:, None] / np.square(_SCALES) + own.size * np.log(_SCALES)
            self._alpha[:, q] = _SCALES[choose(self._random, _ALPHA_PRIOR - score)]
        self._stretch(int(self._random.integers(TRAITS)), self._weights.likelihood(gaps))

    def _look_at_margins(self, means: Floats) -> None:
        """While warming up, s^2 follows the chains' margins; later that would bend the density."""
        now = np.maximum(1.0 - np.square(means), _LEAST_VARIANCE).mean(axis=0)
        self._variance = self._variance + _FOLLOW * (now - self._variance)

    def _sized(self, q: int) -> NDArray[np.intp]:
        """What of a state alpha_q is the size of: a trait's loadings, then beta."""
        d = self.mixtures.d
        return np.append(np.arange((1 + q) * d, (2 + q) * d), self._own + 1 + q)

    def _draw_delta(self, square: Floats) -> None:
        score = square @ self._by_delta + self._delta_cost
        self._delta = _DELTA[choose(self._random, _DELTA_PRIOR - 0.5 * score)]

    def _stretch(self, q: int, likelihood: Floats) -> None:
        """A Metropolis step of alpha and all that it is the size of."""
        own, old = self._sized(q), self._alpha[:, q]
        step = _STRETCHES[self._random.integers(len(_STRETCHES))]
        factor = np.exp(step * self._random.normal(size=CHAINS))
        state, new = self.state.copy(), old * factor
        state[:, own] *= factor[:, None]
        gain = self._weights.likelihood(self._gaps(state)) - likelihood
        gain -= 0.5 * (np.square(new) - np.square(old)) / LARGEST_ALPHA**2
        taken = np.log(self._random.random(CHAINS)) < gain
        taken &= (new > _SCALES[0]) & (new < _SCALES[-1])
        self.state[taken], self._alpha[taken, q] = state[taken], new[taken]
