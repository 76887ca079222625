"""The margin of an attribute whose levels have an order: a smooth density with spikes.

The estimate x of the margin p is normal with known precision. With f the log density,

    p = softmax(offset + f),   f ~ N(0, slope^2 t t' + sigma^2 S + tau^2 I + spike^2 I_spikes),

t the centred levels and S the covariance of a random walk of second order. Neighbouring levels are
alike as far as sigma is larger than tau; a spike is a level that its neighbours say nothing about.
sigma and tau have a grid, weighted by evidence (Laplace's approximation); spikes are added as long
as they raise the evidence. See noise-aware.md, section 11.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from calmstream.estimators.noise_aware import priors
from calmstream.estimators.noise_aware.arrays import Flags, Floats
from calmstream.estimators.noise_aware.input.ordered import Levels, MarginEstimate

CHAINS, WARM_UP, KEPT = 40, 30, 40
"""Chains, and their steps before and while draws are averaged."""

ROUNDS = 2
"""Number of times that scales and spikes are chosen in turn."""

MAX_SPIKES = 16
"""Maximum number of spikes that one round adds."""

COMMON = 1.5
"""Number of margins for which the even prior of scales counts: several margins of one table are
often alike, such as numbers that are cut into levels with equally many records."""

COMMON_STEPS = 20
"""Steps to the common prior."""

Scales = tuple[float, float]
"""Sigma and tau."""

MAX_STEPS = 40
"""Maximum number of Newton steps to a mode; a few are enough from a mode nearby."""


@dataclass(frozen=True, slots=True, eq=False)
class SmoothMargin:
    """The posterior of a margin."""

    mean: Floats  # (labels,): posterior mean; non-negative, of sum 1
    draws: Floats  # (CHAINS, labels): posterior draws


@dataclass(frozen=True, slots=True, eq=False)
class Mode:
    """The most probable log density for one covariance ``root root^T`` of f.

    The posterior of z, where ``f = root z``, is nearly normal with this mean and
    precision ``curvature``.
    """

    root: Floats  # (labels, labels)
    z: Floats  # (labels,)
    curvature: Floats  # (labels, labels)
    evidence: float  # Logarithm, up to a constant that all covariances have in common


class Candidates:
    """The modes of a margin at all pairs of scales.

    Attributes:
        evidence: logarithm of the density of the estimate at each pair of scales, up to a constant:
            shape (pairs,).
    """

    def __init__(self, estimate: MarginEstimate, levels: Levels) -> None:
        """Find the modes and the spikes; cost O(100 labels^3)."""
        self._problem, spikes = _Problem(estimate, levels), levels.lone
        modes = dict(self._problem.modes(spikes))
        for _ in range(ROUNDS):
            best = max(modes, key=lambda scales: modes[scales].evidence)
            more, start = self._problem.add_spikes(best, spikes, modes[best])
            if (more == spikes).all():
                break
            spikes, modes = more, dict(self._problem.modes(more, start))
        self._modes = list(modes.values())
        self.evidence = np.array([mode.evidence for mode in self._modes])

    def posterior(self, prior: Floats, random: np.random.Generator) -> SmoothMargin:
        """Return the posterior, where the pairs of scales have these priors: shape (pairs,)."""
        return self._problem.sample(self._modes, _shares(self.evidence, prior), random)


def common_prior(evidence: Floats) -> Floats:
    """Return how usual pairs of scales are, from the evidence of several margins.

    Shape (margins, pairs) to (pairs,). The probabilities have a Dirichlet prior that counts as much
    as `COMMON` margins.
    """
    size = evidence.shape[1]
    prior = np.full(size, 1.0 / size)
    for _ in range(COMMON_STEPS):
        known = _shares(evidence, prior).sum(axis=0)
        prior = (COMMON / size + known) / (COMMON + len(evidence))
    return prior


def _shares(evidence: Floats, prior: Floats) -> Floats:
    """Return the posterior probabilities of the pairs of scales: shape (..., pairs)."""
    weight = prior * np.exp(evidence - evidence.max(axis=-1, keepdims=True))
    return np.asarray(weight / weight.sum(axis=-1, keepdims=True), np.float64)


class _Problem:
    """The posterior density of one margin as a function of the covariance of f."""

    def __init__(self, estimate: MarginEstimate, levels: Levels) -> None:
        self.offset, self.ordered = levels.offset, levels.ordered
        self.x = estimate.table
        # Square root R of the precision: R^T R.
        self.half = np.linalg.cholesky(estimate.precision).T
        self.near = np.log(estimate.near) - levels.offset
        self.near -= self.near.mean()
        self.levels = levels.count

    def price(self, number: int) -> float:
        """Return the prior log odds against one more spike, which would be the one of this number.

        Each level is a spike with a probability that has the distribution Beta(1, 9).
        """
        return float(np.log((self.levels - number + 9.0) / number))

    def modes(self, spikes: Flags, start: Mode | None = None) -> Iterator[tuple[Scales, Mode]]:
        """Yield the mode of every pair (sigma, tau) of the grid; each starts at the one before."""
        for sigma in priors.LEVEL_SMOOTH:
            for tau in priors.LEVEL_ROUGH:
                start = self.mode(self.root(sigma, tau, spikes), start)
                yield (sigma, tau), start

    def root(self, sigma: float, tau: float, spikes: Flags) -> Floats:
        """Return a root of the covariance of f."""
        covariance = np.diag(np.full(self.x.size, tau**2))
        own = np.flatnonzero(self.ordered)
        slope, walk = second_order(own.size)
        steep = min(priors.LEVEL_SLOPE, priors.LEVEL_SLOPE_RATIO * sigma)
        smooth = steep**2 * np.outer(slope, slope) + sigma**2 * walk
        covariance[np.ix_(own, own)] += smooth
        covariance[spikes, spikes] += priors.LEVEL_SPIKE**2
        return np.asarray(np.linalg.cholesky(covariance))

    def tables(self, f: Floats) -> Floats:
        """Return margins for log densities f: shape (..., labels) both."""
        logs = self.offset + f
        p = np.exp(logs - logs.max(axis=-1, keepdims=True))
        return np.asarray(p / p.sum(axis=-1, keepdims=True))

    def energy(self, z: Floats, p: Floats) -> Floats:
        """Return minus the log posterior density of z, up to a constant: shape (...)."""
        miss = (self.x - p) @ self.half.T
        return np.asarray(0.5 * (np.square(miss).sum(axis=-1) + np.square(z).sum(axis=-1)))

    def mode(self, root: Floats, start: Mode | None) -> Mode:
        """Find the mode by damped Gauss-Newton steps; ``start`` is a mode nearby."""
        f = [np.zeros(self.x.size), self.near] + ([] if start is None else [start.root @ start.z])
        starts = np.asarray(np.linalg.solve(root, np.stack(f, axis=1)).T, np.float64)
        z = starts[int(self.energy(starts, self.tables(starts @ root.T)).argmin())]
        p = self.tables(root @ z)
        energy = float(self.energy(z, p))
        for _ in range(MAX_STEPS):
            curvature, gradient = self._slopes(root, z, p)
            step = np.linalg.solve(curvature, gradient)
            length = 1.0
            while length > 1e-3:
                moved = z - length * step
                p_moved = self.tables(root @ moved)
                lower = float(self.energy(moved, p_moved))
                if lower <= energy:
                    break
                length /= 2.0
            else:
                break
            gain, z, p, energy = energy - lower, moved, p_moved, lower
            if gain < 1e-4:
                break
        curvature, _ = self._slopes(root, z, p)
        evidence = -energy - 0.5 * float(np.linalg.slogdet(curvature)[1])
        return Mode(root, z, curvature, evidence)

    def _slopes(self, root: Floats, z: Floats, p: Floats) -> tuple[Floats, Floats]:
        """Return the curvature (Gauss-Newton) and the gradient of the energy."""
        moved = p[:, None] * root - np.outer(p, p @ root)
        moved = self.half @ moved
        gradient = z - moved.T @ (self.half @ (self.x - p))
        return np.eye(z.size) + moved.T @ moved, gradient

    def add_spikes(self, scales: Scales, spikes: Flags, mode: Mode) -> tuple[Flags, Mode]:
        """Add one spike after the other while the evidence rises by more than its price."""
        for number in range(1, MAX_SPIKES + 1):
            gain = np.where(spikes, -np.inf, self._gains(mode))
            more = spikes.copy()
            more[int(gain.argmax())] = True
            found = self.mode(self.root(*scales, more), mode)
            if found.evidence - mode.evidence <= self.price(number):
                break
            spikes, mode = more, found
        return spikes, mode

    def _gains(self, mode: Mode) -> Floats:
        """Return the gain of evidence by each spike, with p linear in f at the mode: (labels,)."""
        p = self.tables(mode.root @ mode.z)
        slopes = self.half @ (np.diag(p) - np.outer(p, p))
        score = slopes.T @ (self.half @ (self.x - p))
        moved = slopes @ mode.root
        known = np.square(slopes).sum(axis=0)
        both = moved.T @ slopes
        known -= (both * np.linalg.solve(mode.curvature, both)).sum(axis=0)
        size = priors.LEVEL_SPIKE**2
        total = 1.0 + size * np.maximum(known, 0.0)
        return np.asarray(0.5 * (np.square(score) * size / total - np.log(total)))

    def sample(
        self, modes: list[Mode], weight: Floats, random: np.random.Generator
    ) -> SmoothMargin:
        """Return the posterior over the covariances of these modes, with these weights.

        Each chain keeps one covariance. Its proposals are autoregressive: they keep the normal
        approximation, so that only the difference to the posterior is accepted or rejected.
        """
        places = (np.arange(CHAINS) + random.random()) / CHAINS
        chosen = np.minimum(np.searchsorted(np.cumsum(weight), places), len(modes) - 1)
        chains = _Chains([modes[i] for i in chosen])
        away = random.normal(size=(CHAINS, self.x.size))
        energy, p = self._excess(chains, away)
        total = np.zeros(self.x.size)
        for step in range(WARM_UP + KEPT):
            angle = random.uniform(0.1, 1.4, size=(CHAINS, 1))
            moved = np.cos(angle) * away + np.sin(angle) * random.normal(size=away.shape)
            excess, p_moved = self._excess(chains, moved)
            taken = np.log1p(-random.random(CHAINS)) < energy - excess
            away[taken], energy[taken], p[taken] = moved[taken], excess[taken], p_moved[taken]
            if step >= WARM_UP:
                total += p.sum(axis=0)
        return SmoothMargin(total / (KEPT * CHAINS), p[random.permutation(CHAINS)])

    def _excess(self, chains: _Chains, away: Floats) -> tuple[Floats, Floats]:
        """Return the energy less that of the normal approximation, (chains,), and the margins."""
        z, f = chains.at(away)
        p = self.tables(f)
        excess: Floats = self.energy(z, p) - 0.5 * np.square(away).sum(axis=1)
        return excess, p


class _Chains:
    """The normal approximations of chains; chains of one mode follow each other."""

    def __init__(self, modes: list[Mode]) -> None:
        own = [i for i, mode in enumerate(modes) if i == 0 or mode is not modes[i - 1]]
        self._parts = []
        for start, end in zip(own, [*own[1:], len(modes)], strict=True):
            mode = modes[start]
            back = np.linalg.inv(np.linalg.cholesky(mode.curvature))
            both = np.hstack([back, back @ mode.root.T])
            centre = np.concatenate([mode.z, mode.root @ mode.z])
            self._parts.append((slice(start, end), both, centre))

    def at(self, away: Floats) -> tuple[Floats, Floats]:
        """Return z and f at standard normal coordinates: shape (chains, labels) all."""
        found = np.empty((len(away), 2 * away.shape[1]))
        for own, both, centre in self._parts:
            found[own] = away[own] @ both + centre
        return found[:, : away.shape[1]], found[:, away.shape[1] :]


@lru_cache(maxsize=16)
def second_order(size: int) -> tuple[Floats, Floats]:
    """Return the centred levels, of mean square 1, and the covariance of a random walk.

    The walk is of second order: its second differences are independent. Its level and slope are
    taken out, and its variance is 1 in the mean over the levels. Shapes (size,) and (size, size).
    """
    levels = np.linspace(-1.0, 1.0, size)
    slope = levels / np.sqrt(np.square(levels).mean())
    differences = np.diff(np.eye(size), n=2, axis=0)
    walk = np.linalg.pinv(differences.T @ differences, rcond=1e-12, hermitian=True)
    covariance: Floats = np.asarray(walk * (size / float(np.trace(walk))), np.float64)
    return slope, covariance
