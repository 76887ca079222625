"""What the pair interactions share: a Bayesian low-rank model of first and second moments.

For attributes i, j with feature means m and feature deviations s (a function of m),

    M_ij = m_i m_j + s_i s_j (u_i · u_j + b_ij + r_ij),  estimate of M_ij ~ N(M_ij, known variance),
    u_iq ~ N(0, alpha_q^2),   r_ij ~ N(0, tau^2 kappa_ij^2),   kappa_ij half-Cauchy,

s of a category in `Features.unit`, so that priors speak about two attributes' dependence whatever
their cardinalities. So a residual is a correlation, most are small and a few may be large
(horseshoe); b is what two attributes of several categories have between them alone (`blocks`); and
the low rank (a few shared causes, as basket size or age) is only as strong as the data say: alpha,
tau, kappa and the priors of the margins (a beta law over binary attributes, `concentration` of
others) are drawn with everything else. The prior of alpha is even on the logarithmic scale down to
half a percent, where it stands for nothing at all: data without dependence must cost no more than
the product of their margins does. That of tau is not: as even a prior makes intervals too short
where few pairs in many depend on each other. How far to fit is decided by the posterior mean under
this prior. The prior's own sizes are stated below; they are few and weak, but were chosen by people
who had seen some of the public data.

Sampling is Gibbs with exact conditionals: rows of u are normal; each binary mean, and the split of
mass between two categories, is drawn from its conditional on a grid, in which m and s(m) enter a
quadratic form; scales are drawn from grids, alpha both with u fixed and with u / alpha fixed, as
either alone mixes badly where there is much noise or little. The residuals are integrated out. Of
several categories the means of u and b given the rest are averaged, not their draws (Rao and
Blackwell): the draws' own noise is more than all of their dependence where reports drown in noise.
A few chains run side by side as one array; the generator's seed is fixed, so equal tallies give
equal answers.
"""

from __future__ import annotations

from math import lgamma, sqrt
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from estimators.noise_aware.models.blocks import Blocks
from estimators.noise_aware.models.concentration import Concentrations
from estimators.noise_aware.models.posterior import Estimates, Keep, Look, Posterior
from estimators.noise_aware.models.residuals import draw_sizes
from estimators.noise_aware.sampling.draws import choose
from estimators.noise_aware.sampling.quadratic_form import Form, laid, refined

if TYPE_CHECKING:
    from estimators.noise_aware.input.features import Features
    from estimators.noise_aware.input.statistics import Statistics

Floats = NDArray[np.float64]

CHAINS = 4
RANK = 4
WARM_UP = 30
SWEEPS = 50
LARGEST_ALPHA = 0.5
"""Above it a loading becomes unlikely (half-normal cut of an even prior of log alpha)."""

LARGEST_CORRELATION = 0.25
"""Prior deviation that no residual correlation of two categories exceeds: kappa's tail would speak
of correlations far above 1, and where noise is high nothing else forbids them."""

MOST_PAIRS = 1 << 14
"""Pairs of features whose residuals tell their sizes in one sweep; of more, as many at random."""

LARGE = 256
"""Features above which `LARGE_SWEEPS` (warming up, kept) do: every size is told by many pairs."""

LARGE_SWEEPS = (20, 25)

_SEED = 20140926
_ALPHA = np.exp(np.linspace(np.log(5e-3), np.log(1.5), 40))
_ALPHA2 = np.square(_ALPHA)
_ALPHA_PRIOR = -0.5 * np.square(_ALPHA / LARGEST_ALPHA)
_MEANS = np.linspace(-4.2, 4.2, 161)
_LAID, _LOG_COSH = laid(np.tanh(_MEANS), 1.0 / np.cosh(_MEANS)), np.log(np.cosh(_MEANS))
_SPLITS = np.linspace(-3.5, 3.5, 41)
_BETA = np.exp(np.linspace(np.log(0.15), np.log(20.0), 14))
_LGAMMA = np.array([lgamma(a) for a in _BETA])
_LGAMMA_SUM = np.array([[lgamma(a + b) for b in _BETA] for a in _BETA])
_BETA_PRIOR = -0.5 * (np.log(_BETA)[:, None] ** 2 + np.log(_BETA)[None] ** 2) / 1.5**2
_LEAST_VARIANCE = 1e-4


def fit(features: Features, statistics: Statistics) -> Posterior:
    """Posterior of the moments given the statistics.

    Args:
        features: of all attributes.
        statistics: of them.

    Cost: O(sweeps · chains · size² · rank²): 0.2 s for 16 categories in all, 0.5 s for 32,
    16 s for 600.
    """
    sampler = _Sampler(features, statistics)
    warm_up, sweeps = (WARM_UP, SWEEPS) if features.size <= LARGE else LARGE_SWEEPS
    for _ in range(warm_up):
        sampler.sweep()
    bounded = np.nonzero(features.binary[:, None] & features.binary[None])
    keep = Keep(Estimates(sampler.seen, sampler.noise, sampler.known, bounded), sampler.random)
    for number in range(sweeps):
        sampler.sweep()
        look = Look(sampler.m, sampler.low(), sampler.residual(), sampler.tau)
        expected = sampler.expected if sampler.several else None
        keep.add(look, expected, draw=number % 5 < 4)
    return keep.posterior()


class _Sampler:
    def __init__(self, features: Features, statistics: Statistics) -> None:
        self.features = features
        self.random = np.random.default_rng(_SEED)
        self.known = (statistics.product_precision > 0) & features.crossed
        precision = np.where(self.known, statistics.product_precision, 1.0)
        self.noise = 1.0 / precision
        self.seen = np.where(self.known, statistics.products, 0.0)
        self.mean_precision, self.mean_seen = statistics.mean_precision, statistics.means
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
        self.ceiling = np.square(LARGEST_CORRELATION / (features.unit[:, None] * features.unit))
        self.blocks = Blocks(features, self.known, CHAINS, self.random)
        self.levers = np.empty((*shape, RANK))
        self.squares = np.empty((*shape, RANK * RANK))

    def _deviation(self, means: Floats) -> Floats:
        variance = np.maximum(self.features.variance(means), _LEAST_VARIANCE)
        return np.asarray(self.features.unit * np.sqrt(variance), np.float64)

    def low(self) -> Floats:
        """Second moments but for residuals: shape (chains, size, size)."""
        scale = self.s[:, :, None] * self.s[:, None, :]
        shared = self.u @ self.u.transpose(0, 2, 1) + self.blocks.table
        return self.m[:, :, None] * self.m[:, None, :] + scale * shared

    def residual(self) -> Floats:
        """Variances of residuals: shape (chains, size, size)."""
        scale = np.square(self.s[:, :, None] * self.s[:, None, :])
        variance = scale * self.kappa2 * np.square(self.tau)[:, None, None]
        if self.several:
            np.minimum(variance, self.ceiling * scale, out=variance)
        return np.asarray(variance, np.float64)

    def expected(self, gain: Floats) -> Floats:
        """Second moments given residual gains, by the last conditional means of u and of blocks.

        Shape (chains, size, size) both. Each term is unbiased; `factors` has the gains of when u
        was drawn.
        """
        scale = self.s[:, :, None] * self.s[:, None, :]
        low = self.m[:, :, None] * self.m[:, None, :] + scale * self.blocks.expected
        both = self.factors + self.factors.transpose(0, 2, 1)
        return np.asarray(low + gain * (self.seen - low) + 0.5 * both, np.float64)

    def lay(self, own: slice = slice(None)) -> None:
        """Keep s u of some features and its products, as they are read."""
        levers = self.s[:, own, None] * self.u[:, own]
        self.levers[:, own] = levers
        squares = levers[:, :, :, None] * levers[:, :, None, :]
        self.squares[:, own] = squares.reshape(*levers.shape[:2], -1)

    def sweep(self) -> None:
        """One draw of everything."""
        self.lay()
        weight = np.where(self.known, 1.0 / (self.noise + self.residual()), 0.0)
        for i in range(len(self.features.cardinalities)):
            self._loadings(i, weight)
            self._means(i, weight)
            self.lay(self.features.slices[i])
        self._alphas()
        low = self.low()
        self._residuals(low)
        self._blocks(low)
        self._margins()
        self.concentration.draw_level()

    def _loadings(self, i: int, weight: Floats) -> None:
        own = self.features.slices[i]
        precision, right = self._of_pairs(own, weight[:, own])
        root = np.linalg.cholesky(precision + self.prior)
        half = np.linalg.solve(root, right[..., None])
        back = root.transpose(0, 1, 3, 2)
        if self.several:
            mean = np.linalg.solve(back, half)[..., 0] @ self.levers.transpose(0, 2, 1)
            kept = np.where(self.known[own], self.noise[own] * weight[:, own], 1.0)
            self.factors[:, own] = kept * self.s[:, own, None] * mean
        half += self.random.normal(size=half.shape)
        self.u[:, own] = np.linalg.solve(back, half)[..., 0]

    def _of_pairs(self, own: slice, w: Floats) -> tuple[Floats, Floats]:
        """Normal equations of an attribute's loadings: (chains, features, rank[, rank])."""
        s = self.s[:, own]
        info = (w @ self.squares).reshape(CHAINS, -1, RANK, RANK)
        rest = self.m[:, own, None] * self.m[:, None, :]
        if self.blocks.count:
            rest += s[:, :, None] * self.s[:, None, :] * self.blocks.table[:, own]
        right = ((w * (self.seen[own] - rest)) @ self.levers) * s[:, :, None]
        return info * np.square(s)[:, :, None, None], right

    def _means(self, i: int, weight: Floats) -> None:
        own, r = self.features.slices[i], self.features.cardinalities[i]
        form = self._form(own, weight[:, own])
        if r > 2:
            self._splits(i, form)
            self.s[:, own] = self._deviation(self.m)[:, own]
            return
        # The prior of m = tanh z: Beta(a, b) density times the derivative of tanh, on whose scale
        # the grid is even. With (1 + m) / 2 = exp(z) / (2 cosh z) it needs no logarithm of m.
        skew, total = self.beta[:, :1] - self.beta[:, 1:], self.beta.sum(axis=1)[:, None]

        def score(z: Floats) -> Floats:
            wide = np.cosh(z)
            likely = form.score(0, np.tanh(z), 1.0 / wide)
            return np.asarray(likely + skew * z - total * np.log(wide))

        coarse = form.on(0, _LAID) + skew * _MEANS - total * _LOG_COSH
        m = refined(self.random, coarse, score, _MEANS)
        self.m[:, own.start] = m
        self.s[:, own.start] = np.sqrt(np.maximum(1.0 - np.square(m), _LEAST_VARIANCE))

    def _form(self, own: slice, w: Floats) -> Form:
        """What moments say about the means of an attribute."""
        shared = self.u[:, own] @ self.levers.transpose(0, 2, 1)
        if self.blocks.count:
            shared += self.s[:, None, :] * self.blocks.table[:, own]
        form = Form.of_pairs(self.m, shared, self.seen[own], w)
        form.add_mean(self.mean_precision[own], self.mean_seen[own])
        return form

    def _splits(self, i: int, form: Form) -> None:
        own, r = self.features.slices[i], self.features.cardinalities[i]
        share = 1.0 / r + self.m[:, own] / sqrt(r)
        unit, concentration = self.features.unit[own.start], self.concentration.values[:, i, None]
        order = self.random.permutation(r)
        for a, b in zip(order, np.roll(order, 1), strict=True):
            both = share[:, a] + share[:, b]

            def split(z: Floats, a: int = int(a), b: int = int(b), both: Floats = both) -> Floats:
                m, total = np.tanh(z), np.zeros(1)
                for c, part in ((a, (1.0 + m) / 2.0), (b, (1.0 - m) / 2.0)):
                    p = both[:, None] * part
                    # The Dirichlet density times tanh's derivative, on whose scale the grid is.
                    total = total + concentration * np.log(part)
                    s = unit * np.sqrt(np.maximum(r * p * (1.0 - p), 0.0))
                    total = total + form.score(c, sqrt(r) * (p - 1.0 / r), s)
                return total

            drawn = refined(self.random, split(_SPLITS), split, _SPLITS)
            chosen = (1.0 + drawn) / 2.0
            share[:, a], share[:, b] = both * chosen, both * (1.0 - chosen)
        self.m[:, own] = sqrt(r) * (share - 1.0 / r)
        self.concentration.draw(i, share)

    def _alphas(self) -> None:
        """Sizes of the factors: given u / alpha, which noise does not hold up, then given u."""
        i, j = self.upper
        low = self.low()
        weight = 1.0 / (self.noise[i, j] + self.residual()[:, i, j])
        gap = self.seen[i, j] - low[:, i, j]
        scale = self.s.take(i, 1) * self.s.take(j, 1)
        for q in range(RANK):
            unit = self.u[:, :, q] / np.sqrt(self.alpha2[:, q, None])
            moved = scale * unit.take(i, 1) * unit.take(j, 1)
            gap = gap + self.alpha2[:, q, None] * moved
            weighted = weight * moved
            slope = (weighted * gap).sum(axis=1)[:, None]
            bend = (weighted * moved).sum(axis=1)[:, None]
            score = slope * _ALPHA2 - 0.5 * bend * np.square(_ALPHA2) + _ALPHA_PRIOR
            self.alpha2[:, q] = _ALPHA2[choose(self.random, score, axis=1)]
            self.u[:, :, q] = unit * np.sqrt(self.alpha2[:, q, None])
            gap = gap - self.alpha2[:, q, None] * moved
        energy = np.square(self.u).sum(axis=1)[:, :, None]
        score = -0.5 * (energy / _ALPHA2 + self.features.size * np.log(_ALPHA2)) + _ALPHA_PRIOR
        chosen = choose(self.random, score.reshape(CHAINS * RANK, -1))
        self._set_alphas(_ALPHA2[chosen].reshape(CHAINS, RANK))

    def _set_alphas(self, squares: Floats) -> None:
        """Sizes of the factors, and the prior precision of loadings that they make."""
        self.alpha2, self.prior = squares, np.eye(RANK) / squares[:, None, None, :]

    def _blocks(self, low: Floats) -> None:
        if not self.blocks.count:
            return
        scale = self.s[:, :, None] * self.s[:, None, :]
        gap = self.seen - low + scale * self.blocks.table
        self.blocks.sweep(gap, 1.0 / (self.noise + self.residual()), scale)

    def _residuals(self, low: Floats) -> None:
        i, j = self.upper
        if not i.size:
            return
        if i.size > MOST_PAIRS:
            some = self.random.integers(i.size, size=MOST_PAIRS)
            i, j = i[some], j[some]
        scale = np.square(self.s[:, i] * self.s[:, j])
        self.tau, chosen = draw_sizes(
            self.random,
            np.square(self.seen[i, j] - low[:, i, j]),
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
        norm = binary.shape[1] * (_LGAMMA_SUM - _LGAMMA[:, None] - _LGAMMA)
        score = _BETA[:, None] * up + _BETA * down + norm + _BETA_PRIOR
        chosen = choose(self.random, score.reshape(CHAINS, -1))
        self.beta = np.stack([_BETA[chosen // _BETA.size], _BETA[chosen % _BETA.size]], axis=1)
