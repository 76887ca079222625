"""Latent traits: a Bayesian model of the moments of any number of binary attributes.

A record has a few unobserved traits z ~ N(0, I), and given these attributes are independent with
``E[x_i | z] = tanh(a_i + b_i . z)`` (item response theory). So a few numbers describe all pairs.
Fields a and loadings b are drawn by Hamiltonian Monte Carlo. Their scales, and those of the
residuals of pairs (`horseshoe`) and triples (delta), are drawn from exact conditionals on grids;
alpha is also moved together with its loadings. See noise-aware.md, section 5.
"""

from __future__ import annotations

import numpy as np

from calmstream.estimators.noise_aware import priors
from calmstream.estimators.noise_aware.arrays import Floats, Indices
from calmstream.estimators.noise_aware.input.statistics import Statistics
from calmstream.estimators.noise_aware.models.horseshoe import draw_scales
from calmstream.estimators.noise_aware.models.mixture import ByOrder, Mixtures, likelihood
from calmstream.estimators.noise_aware.models.posterior import (
    DRAWS,
    Posterior,
    PosteriorAccumulator,
)
from calmstream.estimators.numerics.hamiltonian import draw
from calmstream.estimators.numerics.sampling import choose

CHAINS = 4
"""Independent chains, which are drawn as one array: each gives ten of the posterior draws."""

TRAITS, NODES = 3, 3
"""Number of traits, and of nodes along each, which approximate its distribution: 27 in all."""

WARM_UP, SWEEPS = 30, 60
"""Dropped and kept sweeps of each chain."""


def fit(statistics: Statistics) -> Posterior:
    """Return the posterior of first and second moments of binary attributes.

    ``statistics`` are read up to order three. Cost: some 540 densities of `mixture`.
    """
    random = np.random.default_rng(20041203)  # fixed: equal tallies give equal answers
    model = Traits(statistics, random)
    own = model.mixtures
    estimates = (own.pair_estimates, own.pair_noise, own.known)
    kept = PosteriorAccumulator(estimates, np.ones(own.d, bool), random)
    for number, means in enumerate(draw(model, random, WARM_UP, SWEEPS)):
        take = number * DRAWS % SWEEPS < DRAWS
        kept.add(*own.first_two(means), model.residual(), model.tau, draw=take)
    return kept.posterior()


class Traits:
    """Chains of the posterior of the parameters of `mixtures`.

    A state, shape (chains, (1 + traits) (d + 1)), holds fields less their centre, then trait by
    trait loadings less their mean, then the centre and these means.
    """

    def __init__(self, statistics: Statistics, random: np.random.Generator) -> None:
        """Start every chain at shrunk margins and next to no dependence."""
        self.mixtures = Mixtures(statistics, TRAITS, NODES)
        self._random, d = random, self.mixtures.d
        self._own = (1 + TRAITS) * d
        precision = self.mixtures.precision
        shrunk = np.clip(self.mixtures.estimates * precision / (precision + 3.0), -0.95, 0.95)
        self._variance, self._sweeps = 1.0 - np.square(shrunk), 0
        self._sigma = np.full(CHAINS, priors.TRAIT_FIELD_SCALE.median)
        self._alpha = np.full((CHAINS, TRAITS), 0.2)
        self.tau = np.full(CHAINS, 0.02)
        self._kappa2 = np.ones((CHAINS, d, d))
        self._delta = np.full(CHAINS, priors.TRAIT_EXCESS.size)
        variance = self.mixtures.triple_noise + np.square(priors.TRAIT_EXCESS.points)[:, None]
        self._by_delta, self._delta_cost = (1.0 / variance).T, np.log(variance).sum(axis=1)
        fields = np.arctanh(shrunk)
        self.state = np.zeros((CHAINS, self._own + 1 + TRAITS))
        self.state[:, :d] = fields - fields.mean()
        self.state[:, d : self._own] = 0.05 * random.normal(size=(CHAINS, TRAITS * d))
        self.state[:, self._own] = fields.mean()
        self._set_weights()

    def residual(self) -> Floats:
        """Return the prior variances of residual second moments: (chains, d, d)."""
        scales = self._kappa2 * np.square(self.tau)[:, None, None]
        return np.asarray(scales * np.outer(self._variance, self._variance))

    def _set_weights(self) -> None:
        """Set the inverse variances of the estimates' distances from the traits' predictions."""
        m = self.mixtures
        two = np.where(m.known, 1.0 / (m.pair_noise + self.residual()), 0.0)
        three = 1.0 / (m.triple_noise + np.square(self._delta)[:, None])
        self._weights = ByOrder(m.precision, two, three)

    def _parameters(self, state: Floats) -> Floats:
        """Return fields and loadings: shape (chains, 1 + traits, d)."""
        own = state[:, : self._own].reshape(len(state), 1 + TRAITS, -1)
        return np.asarray(own + state[:, self._own :, None], np.float64)

    def given_nodes(self, state: Floats) -> Floats:
        """Return the means of attributes given nodes: shape (chains, d, nodes)."""
        return self.mixtures.given_nodes(self._parameters(state))

    def density(self, state: Floats, known: Floats | None = None) -> tuple[Floats, Floats, Floats]:
        """Return the log posterior, its gradient, and means given nodes; see `hamiltonian`."""
        means = self.given_nodes(state) if known is None else known
        value, slope = self.mixtures.density(means, self._weights)
        gradient = np.hstack([slope.reshape(len(state), -1), slope.sum(axis=2)])
        scale = self._prior_scales()
        z, fields, nu = state / scale, slice(0, self.mixtures.d), priors.TRAIT_FREEDOM
        square = np.square(z)
        z[:, fields] *= (nu + 1.0) / (nu + square[:, fields])
        square[:, fields] = (nu + 1.0) * np.log1p(square[:, fields] / nu)
        return value - 0.5 * square.sum(axis=1), gradient - z / scale, means

    def _prior_scales(self) -> Floats:
        d = self.mixtures.d
        fields = np.repeat(self._sigma[:, None], d, axis=1)
        loadings = np.repeat(self._alpha, d, axis=1)
        centre = np.full((CHAINS, 1), priors.FIELD_CENTRE)
        return np.hstack([fields, loadings, centre, priors.TRAIT_COMMON * self._alpha])

    def prior_curvature(self) -> Floats:
        """Return the prior's diagonal curvature; see `hamiltonian`."""
        out = np.square(self._prior_scales())
        out[:, : self.mixtures.d] *= (priors.TRAIT_FREEDOM + 3.0) / (priors.TRAIT_FREEDOM + 1.0)
        return np.asarray(1.0 / out)

    def curvature(self) -> Floats:
        """Return the likelihood's curvature; see `hamiltonian`."""
        d = self.mixtures.d
        own = self.mixtures.curvature(self._parameters(self.state), self._weights)
        chart = np.hstack([np.eye(self._own), np.repeat(np.eye(1 + TRAITS), d, axis=0)])
        return np.asarray(chart.T @ own @ chart)

    def draw_scales(self, known: Floats) -> Floats:
        """Draw the scales delta, tau, kappa, sigma and alpha; see noise-aware.md, section 5.

        ``known`` are the means given nodes of the state; those afterwards are returned.
        """
        gaps = self.mixtures.gaps(known)[0]
        self._sweeps += 1
        if self._sweeps <= WARM_UP:
            # The unit of residuals follows the margins. It changes the density, so only while
            # warming up.
            margins = np.square(self.mixtures.estimates - gaps.one)
            now = np.maximum(1.0 - margins, 1e-4).mean(axis=0)
            self._variance = self._variance + 0.2 * (now - self._variance)
        if gaps.three.size:
            score = np.square(gaps.three) @ self._by_delta + self._delta_cost
            chosen = choose(self._random, priors.TRAIT_EXCESS.on_grid - 0.5 * score)
            self._delta = priors.TRAIT_EXCESS.points[chosen]
        i, j = self.mixtures.pairs
        self.tau, kappa2 = draw_scales(
            self._random,
            np.square(gaps.two[:, i, j]),
            self.mixtures.pair_noise[i, j],
            (self._variance[i] * self._variance[j])[None],
            self._kappa2[:, i, j],
        )
        self._kappa2[:, i, j] = self._kappa2[:, j, i] = kappa2
        self._set_weights()
        self._draw_sigma()
        for q in range(TRAITS):
            self._draw_alpha(q)
        before = likelihood(gaps, self._weights)
        return self._stretch(int(self._random.integers(TRAITS)), known, before)

    def _draw_sigma(self) -> None:
        d, nu, grid = self.mixtures.d, priors.TRAIT_FREEDOM, priors.TRAIT_FIELD_SCALE.points
        square = np.square(self.state[:, None, :d] / grid[:, None])
        score = 0.5 * (nu + 1.0) * np.log1p(square / nu).sum(axis=2)
        prior = priors.TRAIT_FIELD_SCALE.on_grid - d * np.log(grid)
        self._sigma = grid[choose(self._random, prior - score)]

    def _draw_alpha(self, q: int) -> None:
        own, grid = self._scaled(q), priors.TRAIT_LOADING.points
        unit = np.append(np.ones(self.mixtures.d), priors.TRAIT_COMMON)
        energy = np.square(self.state[:, own] / unit).sum(axis=1)
        score = 0.5 * energy[:, None] / np.square(grid) + own.size * np.log(grid)
        self._alpha[:, q] = grid[choose(self._random, priors.TRAIT_LOADING.on_grid - score)]

    def _scaled(self, q: int) -> Indices:
        """Return the positions in a state that alpha_q scales: a trait's loadings, their mean."""
        d = self.mixtures.d
        return np.append(np.arange((1 + q) * d, (2 + q) * d), self._own + 1 + q)

    def _stretch(self, q: int, known: Floats, before: Floats) -> Floats:
        """Multiply alpha_q and all that it scales by a random factor, in a Metropolis step.

        ``known`` are the means given nodes of the states, ``before``, shape (chains,), the log
        likelihoods. The means afterwards are returned.
        """
        own, old, grid = self._scaled(q), self._alpha[:, q], priors.TRAIT_LOADING.points
        steps = (0.3, 1.0, 2.5)  # of log alpha; the best one depends on the noise
        step = steps[self._random.integers(len(steps))]
        factor = np.exp(step * self._random.normal(size=CHAINS))
        state, new = self.state.copy(), old * factor
        state[:, own] *= factor[:, None]
        found = self.given_nodes(state)
        gain = likelihood(self.mixtures.gaps(found)[0], self._weights) - before
        gain -= 0.5 * (np.square(new) - np.square(old)) / priors.TRAIT_LOADING.size**2
        taken = np.log(self._random.random(CHAINS)) < gain
        taken &= (new > grid[0]) & (new < grid[-1])
        self.state[taken], self._alpha[taken, q] = state[taken], new[taken]
        return np.where(taken[:, None, None], found, known)
