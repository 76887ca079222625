"""Posterior of first and second moments, whatever model draws them: means, variances, draws.

A model draws means and second moments up to residuals of known prior variance. Given the estimates
a residual is normal, so its mean and variance are exact (Rao and Blackwell). Second moments of two
binary attributes are kept within Frechet's bounds. See noise-aware.md, section 4.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from estimators.noise_aware.arrays import Flags, Floats, Indices
from estimators.noise_aware.sampling.draws import truncated

DRAWS = 40
"""Posterior draws kept for intervals: a 95 % quantile then lies between two of them."""


@dataclass(frozen=True, slots=True, eq=False)
class Posterior:
    """Means, variances and draws of the first and second moments."""

    means: Floats  # (size,)
    mean_variance: Floats  # (size,)
    products: Floats  # (size, size); blocks of one attribute with itself have no meaning
    product_variance: Floats  # (size, size)
    residual: float  # Posterior mean of the residuals' scale
    drawn_means: Floats  # (draws, size)
    drawn_products: Floats  # (draws, size, size)


def draws_for(cells: int) -> int:
    """Return the number of draws for a table's intervals: fewer, at least 8, for large tables."""
    return max(8, min(DRAWS, (1 << 18) // cells))


@dataclass(frozen=True, slots=True, eq=False)
class PairEstimates:
    """The estimates that every sweep's residuals are measured against."""

    values: Floats  # (size, size): estimates of second moments
    noise: Floats  # (size, size): their variances
    known: Flags  # (size, size): whether there is an estimate
    bounded: tuple[Indices, ...]  # Rows and columns of binary pairs


@dataclass(frozen=True, slots=True, eq=False)
class Sweep:
    """One sweep of all chains."""

    means: Floats  # (chains, size)
    low: Floats  # (chains, size, size): second moments without residuals
    residual: Floats  # (chains, size, size): prior variances of residuals
    tau: Floats  # (chains,): their scale


class PosteriorAccumulator:
    """Running sums over the kept sweeps."""

    def __init__(self, estimates: PairEstimates, random: np.random.Generator) -> None:
        """Start with no sweep."""
        size = len(estimates.values)
        self._estimates, self._random = estimates, random
        self._count = 0
        self._means, self._mean_squares = np.zeros(size), np.zeros(size)
        self._products, self._product_squares = np.zeros((size, size)), np.zeros((size, size))
        self._tau = 0.0
        self._drawn: list[tuple[Floats, Floats]] = []

    def add(
        self, sweep: Sweep, expected: Callable[[Floats], Floats] | None = None, *, draw: bool
    ) -> None:
        """Add one sweep, and if ``draw`` a draw of one chain.

        ``expected`` maps gains of residuals to conditional means of second moments, where these are
        less noisy than the sweep's own; shape (chains, size, size) both.
        """
        own, means = self._estimates, sweep.means
        gain = np.where(own.known, sweep.residual / (sweep.residual + own.noise), 0.0)
        mean = sweep.low + gain * (own.values - sweep.low)
        spread = sweep.residual * (1.0 - gain)
        i, j = own.bounded
        a, b = means[:, i], means[:, j]
        floor, ceiling = np.abs(a + b) - 1.0, 1.0 - np.abs(a - b)  # Frechet's
        mean[:, i, j], spread[:, i, j] = truncated(
            mean[:, i, j], np.sqrt(spread[:, i, j]) + 1e-9, floor, ceiling
        )
        chains = len(means)
        self._count += chains
        self._means += means.sum(axis=0)
        self._mean_squares += np.square(means).sum(axis=0)
        best = mean
        if expected is not None:
            best = expected(gain)
            best[:, i, j] = mean[:, i, j]
        self._products += best.sum(axis=0)
        self._product_squares += (np.square(mean) + spread).sum(axis=0)
        self._tau += float(sweep.tau.sum())
        if draw:
            c = len(self._drawn) % chains  # every chain: within one, draws resemble each other
            noise = np.triu(self._random.normal(size=mean[c].shape), 1)
            drawn = mean[c] + np.sqrt(spread[c]) * (noise + noise.T)
            drawn[i, j] = np.clip(drawn[i, j], floor[c], ceiling[c])
            self._drawn.append((means[c].copy(), drawn))

    def posterior(self) -> Posterior:
        """Return the posterior from all sweeps so far."""
        means, products = self._means / self._count, self._products / self._count
        return Posterior(
            means,
            np.maximum(self._mean_squares / self._count - np.square(means), 0.0),
            products,
            np.maximum(self._product_squares / self._count - np.square(products), 0.0),
            self._tau / self._count,
            np.array([m for m, _ in self._drawn]),
            np.array([p for _, p in self._drawn]),
        )
