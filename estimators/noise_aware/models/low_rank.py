"""Low-rank correlations: a Bayesian model of first and second moments of any attributes.

For attributes i, j with feature means m and feature deviations s (a function of m),

    M_ij = m_i m_j + s_i s_j (u_i . u_j + b_ij + r_ij),   u_iq ~ N(0, alpha_q^2),

with sparse residuals r (`horseshoe`) and blocks b of two categorical attributes (`blocks`). Gibbs
sampling draws from exact conditionals, on grids where they have no standard form. Residuals are
integrated out. For categorical attributes conditional means are averaged instead of draws, as they
are less noisy. See noise-aware.md, section 5.
"""

from __future__ import annotations

from math import lgamma, sqrt

import numpy as np

from calmstream.estimators.noise_aware.arrays import Floats
from calmstream.estimators.noise_aware.input.features import Features
from calmstream.estimators.noise_aware.input.statistics import Statistics
from calmstream.estimators.noise_aware.models import splits
from calmstream.estimators.noise_aware.models.blocks import Blocks
from calmstream.estimators.noise_aware.models.concentration import Concentrations
from calmstream.estimators.noise_aware.models.horseshoe import draw_scales
from calmstream.estimators.noise_aware.models.lines import Lines, Places
from calmstream.estimators.noise_aware.models.posterior import (
    DRAWS,
    Posterior,
    PosteriorAccumulator,
)
from calmstream.estimators.noise_aware.models.quadratic_form import QuadraticForm, refined
from calmstream.estimators.noise_aware.models.splits import SplitDensities
from calmstream.estimators.noise_aware.priors import FACTOR_LOADING, LARGEST_RESIDUAL, MEAN_SHAPES
from calmstream.estimators.numerics.sampling import choose

CHAINS, RANK = 4, 4
"""Numbers of chains and of factors; a small alpha switches off a factor that data do not need."""

BITS, CATEGORIES, MANY, SHORT, MARGINS = (30, 50), (20, 40), (20, 25), (10, 25), (10, 20)
"""Sweeps before the first that is kept, and kept sweeps: of bits, of other attributes, of many, of
a short run, and of margins from first moments alone."""

LARGE = 256
"""Above this number of features `MANY` sweeps are enough: many pairs determine each scale."""

MOST_PAIRS = 1 << 14
"""Maximum number of pairs of features that determine scales in a sweep; a random sample of more."""

FEWER_PAIRS = 1 << 12
"""The same in a short run."""

MEAN_GRID = np.linspace(-4.2, 4.2, 161)
"""Grid of the atanh of a binary mean, for means up to 0.9995."""

BETA_NORM = np.array(
    [
        [lgamma(a + b) - lgamma(a) - lgamma(b) for b in MEAN_SHAPES.points]
        for a in MEAN_SHAPES.points
    ]
)
"""Logarithm of the beta density's constant at each pair of shapes."""


def fit(
    features: Features, statistics: Statistics, places: Places = (), *, short: bool = False
) -> Posterior:
    """Return the posterior of the moments; cost O(sweeps · chains · size² · rank²).

    ``places`` are those of categories in the order of their attribute, as far as it has one.
    ``short`` takes fewer steps, for many features.
    """
    sampler = _Sampler(features, statistics, places, FEWER_PAIRS if short else MOST_PAIRS)
    warm_up, sweeps = BITS if features.binary.all() else CATEGORIES
    if short:
        warm_up, sweeps = SHORT
    elif features.size > LARGE:
        warm_up, sweeps = MANY
    for _ in range(warm_up):
        sampler.lines.update(sampler.m.mean(axis=0))
        sampler.sweep()
    estimates = (sampler.estimates, sampler.noise, sampler.known)
    kept = PosteriorAccumulator(estimates, features.binary, sampler.random)
    expected = sampler.expected if sampler.several else None
    drawn = {i for i in range(sweeps) if sweeps <= DRAWS or i % 5 < 4}
    for number in range(sweeps):
        sampler.sweep()
        draw, low, residual = number in drawn, sampler.low(), sampler.residual()
        kept.add(sampler.m, low, residual, sampler.tau, expected, draw=draw)
    return kept.posterior()


def fit_margins(features: Features, statistics: Statistics) -> tuple[Floats, Floats]:
    """Return means from first moments alone, and draws of them: shapes (size,), (draws, size).

    All attributes have more than two categories. Cost: O(sweeps · chains · size).
    """
    sampler = _Sampler(features, statistics, (), 0)
    warm_up, sweeps = MARGINS
    kept = []
    for number in range(warm_up + sweeps):
        for i, own in enumerate(features.slices):
            form = QuadraticForm(np.zeros((CHAINS, features.widths[i], 3, 3)))
            form.add_mean(sampler.mean_precision[own], sampler.mean_estimates[own])
            sampler.draw_splits(i, form)
        sampler.concentration.draw_level()
        if number >= warm_up:
            kept.append(sampler.m.copy())
    drawn = np.array(kept)
    which = np.arange(DRAWS)
    return drawn.mean(axis=(0, 1)), drawn[which * sweeps // DRAWS, which % CHAINS]


class _Sampler:
    """Chains of all parameters; symbols are those of the module's formula."""

    def __init__(
        self,
        features: Features,
        statistics: Statistics,
        places: Places = (),
        most_pairs: int = MOST_PAIRS,
    ) -> None:
        self.features, self.most_pairs = features, most_pairs
        self.lines = Lines(features, places)
        self.random = np.random.default_rng(20140926)  # fixed: equal tallies give equal answers
        self.known = statistics.product_precision > 0
        precision = np.where(self.known, statistics.product_precision, 1.0)
        self.noise = 1.0 / precision
        self.estimates = np.where(self.known, statistics.products, 0.0)
        self.mean_precision, self.mean_estimates = statistics.mean_precision, statistics.means
        self.upper = np.nonzero(np.triu(self.known, 1))
        shape = (CHAINS, features.size)
        self.m = np.repeat(statistics.valid_means(features)[None], CHAINS, 0)
        self.u = 0.2 * self.random.normal(size=(*shape, RANK))
        self.tau = np.full(CHAINS, 0.05)
        self.kappa2 = np.ones((*shape, features.size))
        self._set_alphas(np.full((CHAINS, RANK), 0.04))
        self.beta = np.ones((CHAINS, 2))
        self.concentration = Concentrations(features.cardinalities, CHAINS, self.random)
        self.s = self._deviation(self.m)
        self.several = not features.binary.all()
        self.factors = np.zeros_like(self.kappa2)
        self.ceiling = np.square(LARGEST_RESIDUAL / (features.unit[:, None] * features.unit))
        self.blocks = Blocks(features, self.known, CHAINS, self.random)
        self.levers = np.empty((*shape, RANK))
        self.squares = np.empty((*shape, RANK * RANK))

    def _deviation(self, means: Floats) -> Floats:
        variance = np.maximum(self.features.variance(means), 1e-4)
        return np.asarray(self.features.unit * np.sqrt(variance), np.float64)

    def low(self) -> Floats:
        """Return second moments without residuals: shape (chains, size, size)."""
        scale = self.s[:, :, None] * self.s[:, None, :]
        correlation = self.u @ self.u.transpose(0, 2, 1) + self.blocks.table
        return self.m[:, :, None] * self.m[:, None, :] + scale * correlation

    def residual(self) -> Floats:
        """Return the variances of residuals: shape (chains, size, size)."""
        scale = np.square(self.s[:, :, None] * self.s[:, None, :])
        variance = scale * self.kappa2 * np.square(self.tau)[:, None, None]
        if self.several:
            np.minimum(variance, self.ceiling * scale, out=variance)
        return np.asarray(variance, np.float64)

    def expected(self, gain: Floats) -> Floats:
        """Return second moments given residual gains, by conditional means of u and of blocks.

        Shape (chains, size, size) both. `factors` has the gains of when u was drawn.
        """
        scale = self.s[:, :, None] * self.s[:, None, :]
        low = self.m[:, :, None] * self.m[:, None, :] + scale * self.blocks.expected
        both = self.factors + self.factors.transpose(0, 2, 1)
        return np.asarray(low + gain * (self.estimates - low) + 0.5 * both, np.float64)

    def store_levers(self, own: slice = slice(None)) -> None:
        """Store s u of some features, and products of its elements, for the steps that follow."""
        levers = self.s[:, own, None] * self.u[:, own]
        self.levers[:, own] = levers
        squares = levers[:, :, :, None] * levers[:, :, None, :]
        self.squares[:, own] = squares.reshape(*levers.shape[:2], -1)

    def sweep(self) -> None:
        """Draw all parameters once."""
        self.store_levers()
        weight = np.where(self.known, 1.0 / (self.noise + self.residual()), 0.0)
        for i in range(len(self.features.cardinalities)):
            self._loadings(i, weight)
            self._means(i, weight)
            self.store_levers(self.features.slices[i])
        self._alphas()
        low = self.low()
        self._residuals(low)
        self._blocks(low)
        self._margins()
        self.concentration.draw_level()

    def _loadings(self, i: int, weight: Floats) -> None:
        """Draw the rows of u of attribute i."""
        own = self.features.slices[i]
        precision, right = self._of_pairs(own, weight[:, own])
        if i in self.lines:
            drawn, mean = self.lines.draw(i, precision, right, self.prior, self.random)
        else:
            drawn, mean = self._free(precision, right)
        self.u[:, own] = drawn
        if self.several:
            mean = mean @ self.levers.transpose(0, 2, 1)
            kept = np.where(self.known[own], self.noise[own] * weight[:, own], 1.0)
            self.factors[:, own] = kept * self.s[:, own, None] * mean

    def _free(self, precision: Floats, right: Floats) -> tuple[Floats, Floats]:
        """Draw loadings that are independent beforehand; also return their conditional mean."""
        root = np.linalg.cholesky(precision + self.prior)
        half = np.linalg.solve(root, right[..., None])
        drawn = half + self.random.normal(size=half.shape)
        back = np.linalg.solve(root.transpose(0, 1, 3, 2), np.concatenate([half, drawn], axis=-1))
        return back[..., 1], back[..., 0]

    def _of_pairs(self, own: slice, w: Floats) -> tuple[Floats, Floats]:
        """Return normal equations of an attribute's loadings: (chains, features, rank[, rank])."""
        s = self.s[:, own]
        info = (w @ self.squares).reshape(CHAINS, -1, RANK, RANK)
        rest = self.m[:, own, None] * self.m[:, None, :]
        if self.blocks.count:
            rest += s[:, :, None] * self.s[:, None, :] * self.blocks.table[:, own]
        right = ((w * (self.estimates[own] - rest)) @ self.levers) * s[:, :, None]
        return info * np.square(s)[:, :, None, None], right

    def _means(self, i: int, weight: Floats) -> None:
        """Draw the means of attribute i."""
        own, r = self.features.slices[i], self.features.cardinalities[i]
        form = self._form(own, weight[:, own])
        if r > 2:
            self.draw_splits(i, form)
            self.s[:, own] = self._deviation(self.m)[:, own]
            return
        # The beta density of (1 + m) / 2 = exp(z) / (2 cosh z), m = tanh z, times dm / dz.
        skew, total = self.beta[:, :1] - self.beta[:, 1:], self.beta.sum(axis=1)[:, None]

        def score(z: Floats) -> Floats:
            wide = np.cosh(z)
            likely = form.score(np.tanh(z), 1.0 / wide)
            return np.asarray(likely + skew * z - total * np.log(wide))

        m = refined(self.random, score, MEAN_GRID)
        self.m[:, own.start] = m
        self.s[:, own.start] = np.sqrt(np.maximum(1.0 - np.square(m), 1e-4))

    def _form(self, own: slice, w: Floats) -> QuadraticForm:
        """Return the log-likelihood of the means of an attribute."""
        levers = self.u[:, own] @ self.levers.transpose(0, 2, 1)
        if self.blocks.count:
            levers += self.s[:, None, :] * self.blocks.table[:, own]
        form = QuadraticForm.of_pairs(self.m, levers, self.estimates[own], w)
        form.add_mean(self.mean_precision[own], self.mean_estimates[own])
        return form

    def draw_splits(self, i: int, form: QuadraticForm) -> None:
        """Draw how two categories split their mass, for all neighbours in a random order.

        Pairs without a common category are independent given the rest and are drawn together: first
        the categories at places 0 and 1, 2 and 3 and so on, then those at 1 and 2, 3 and 4.
        """
        own, r = self.features.slices[i], self.features.cardinalities[i]
        share = 1.0 / r + self.m[:, own] / sqrt(r)
        unit = float(self.features.unit[own.start])
        densities = SplitDensities(form, unit, self.concentration.values[:, i])
        order = self.random.permutation(r)
        for first in (0, 1):
            pairs = order[first : r - (r - first) % 2].reshape(-1, 2).T
            both = share[:, pairs].sum(axis=1)
            drawn = refined(self.random, densities.of(pairs, both), splits.GRID)
            part = 0.5 * both * (1.0 + drawn.reshape(both.shape))
            share[:, pairs[0]], share[:, pairs[1]] = part, both - part
        self.m[:, own] = sqrt(r) * (share - 1.0 / r)
        self.concentration.draw(i, share)

    def _alphas(self) -> None:
        """Draw alpha given u / alpha, which mixes well where noise is high, then given u."""
        (i, j), grid2, prior = self.upper, np.square(FACTOR_LOADING.points), FACTOR_LOADING.on_grid
        low = self.low()
        weight = 1.0 / (self.noise[i, j] + self.residual()[:, i, j])
        gap = self.estimates[i, j] - low[:, i, j]
        scale = self.s.take(i, 1) * self.s.take(j, 1)
        for q in range(RANK):
            unit = self.u[:, :, q] / np.sqrt(self.alpha2[:, q, None])
            moved = scale * unit.take(i, 1) * unit.take(j, 1)
            gap = gap + self.alpha2[:, q, None] * moved
            weighted = weight * moved
            slope = (weighted * gap).sum(axis=1)[:, None]
            bend = (weighted * moved).sum(axis=1)[:, None]
            score = slope * grid2 - 0.5 * bend * np.square(grid2) + prior
            self.alpha2[:, q] = grid2[choose(self.random, score, axis=1)]
            self.u[:, :, q] = unit * np.sqrt(self.alpha2[:, q, None])
            gap = gap - self.alpha2[:, q, None] * moved
        energy = self.lines.energy(self.u)[:, :, None]
        score = -0.5 * (energy / grid2 + self.features.size * np.log(grid2)) + prior
        chosen = choose(self.random, score.reshape(CHAINS * RANK, -1))
        self._set_alphas(grid2[chosen].reshape(CHAINS, RANK))

    def _set_alphas(self, squares: Floats) -> None:
        """Set the scales of the factors, and the prior precision of loadings."""
        self.alpha2, self.prior = squares, np.eye(RANK) / squares[:, None, None, :]

    def _blocks(self, low: Floats) -> None:
        if not self.blocks.count:
            return
        scale = self.s[:, :, None] * self.s[:, None, :]
        gap = self.estimates - low + scale * self.blocks.table
        self.blocks.sweep(gap, 1.0 / (self.noise + self.residual()), scale)

    def _residuals(self, low: Floats) -> None:
        i, j = self.upper
        if not i.size:
            return
        if i.size > self.most_pairs:
            some = self.random.integers(i.size, size=self.most_pairs)
            i, j = i[some], j[some]
        scale = np.square(self.s[:, i] * self.s[:, j])
        self.tau, chosen = draw_scales(
            self.random,
            np.square(self.estimates[i, j] - low[:, i, j]),
            self.noise[i, j],
            scale,
            self.kappa2[:, i, j],
            self.ceiling[i, j] * scale if self.several else None,
        )
        self.kappa2[:, i, j] = self.kappa2[:, j, i] = chosen

    def _margins(self) -> None:
        binary = self.m[:, self.features.binary]
        if not binary.shape[1]:
            return
        up = np.log((1.0 + binary) / 2.0).sum(axis=1)[:, None, None]
        down = np.log((1.0 - binary) / 2.0).sum(axis=1)[:, None, None]
        beta, norm = MEAN_SHAPES.points, binary.shape[1] * BETA_NORM
        squares = np.log(beta)[:, None] ** 2 + np.log(beta)[None] ** 2
        prior = -0.5 * squares / MEAN_SHAPES.spread**2
        score = beta[:, None] * up + beta * down + norm + prior
        chosen = choose(self.random, score.reshape(CHAINS, -1))
        self.beta = np.stack([beta[chosen // beta.size], beta[chosen % beta.size]], axis=1)
