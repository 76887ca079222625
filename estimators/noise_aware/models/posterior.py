"""Posterior of first and second moments, whatever model draws them: means, variances, draws.

A model draws means and second moments up to residuals r_ij of known prior variance; given the
estimates a residual is normal, so its mean and variance are known and need not be drawn (Rao and
Blackwell). Second moments of two binary attributes are kept within Frechet's bounds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from estimators.noise_aware.sampling.draws import truncated

if TYPE_CHECKING:
    from collections.abc import Callable

    from estimators.noise_aware.input.features import Features

Floats = NDArray[np.float64]

DRAWS = 40
"""Posterior draws kept for standard errors."""

LEAST_DRAWS = 8
MAX_DRAWN_CELLS = 1 << 18
"""Cells times draws beyond which fewer draws, down to `LEAST_DRAWS`, make the standard errors."""


@dataclass(frozen=True, slots=True, eq=False)
class Posterior:
    """Means, variances and draws of the first and second moments.

    Attributes:
        means: shape (size,).
        mean_variance: shape (size,).
        products: shape (size, size); means inside blocks of one attribute have no meaning.
        product_variance: shape (size, size).
        residual: posterior mean of tau.
        drawn_means: shape (draws, size).
        drawn_products: shape (draws, size, size).
    """

    means: Floats
    mean_variance: Floats
    products: Floats
    product_variance: Floats
    residual: float
    drawn_means: Floats
    drawn_products: Floats


def draws_for(cells: int) -> int:
    """How many draws make the standard errors of a table."""
    return max(LEAST_DRAWS, min(DRAWS, MAX_DRAWN_CELLS // cells))


def nothing(features: Features) -> Posterior:
    """What is known without any report: every attribute even, certain of nothing."""
    size = features.size
    ones, zeros = np.ones(size), np.zeros((size, size))
    one, two = np.zeros((1, size)), np.zeros((1, size, size))
    return Posterior(np.zeros(size), ones, zeros, np.ones_like(zeros), 0.0, one, two)


@dataclass(frozen=True, slots=True, eq=False)
class Estimates:
    """What every sweep's residuals are measured against.

    Attributes:
        seen: shape (size, size): estimates of second moments.
        noise: shape (size, size): their variances.
        known: shape (size, size): whether there is an estimate.
        bounded: rows and columns of binary pairs.
    """

    seen: Floats
    noise: Floats
    known: NDArray[np.bool_]
    bounded: tuple[NDArray[np.intp], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Look:
    """One sweep of all chains.

    Attributes:
        means: shape (chains, size).
        low: shape (chains, size, size): second moments but for residuals.
        residual: shape (chains, size, size): prior variances of these.
        tau: shape (chains,): their size.
    """

    means: Floats
    low: Floats
    residual: Floats
    tau: Floats


class Keep:
    """Running sums over the kept sweeps."""

    def __init__(self, estimates: Estimates, random: np.random.Generator) -> None:
        """Nothing yet."""
        size = len(estimates.seen)
        self._estimates, self._random = estimates, random
        self._count = 0
        self._means, self._mean_squares = np.zeros(size), np.zeros(size)
        self._products, self._product_squares = np.zeros((size, size)), np.zeros((size, size))
        self._tau = 0.0
        self._drawn: list[tuple[Floats, Floats]] = []

    def add(
        self, look: Look, expected: Callable[[Floats], Floats] | None = None, *, draw: bool
    ) -> None:
        """One more sweep.

        Args:
            look: the sweep.
            expected: from gains of residuals to conditional means of second moments, where these
                are known better than by the sweep's own draw; shape (chains, size, size) both.
            draw: keep a draw of one chain.
        """
        own, means = self._estimates, look.means
        gain = np.where(own.known, look.residual / (look.residual + own.noise), 0.0)
        mean = look.low + gain * (own.seen - look.low)
        spread = look.residual * (1.0 - gain)
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
        self._tau += float(look.tau.sum())
        if draw:
            c = len(self._drawn) % chains  # every chain: within one, draws resemble each other
            noise = np.triu(self._random.normal(size=mean[c].shape), 1)
            drawn = mean[c] + np.sqrt(spread[c]) * (noise + noise.T)
            drawn[i, j] = np.clip(drawn[i, j], floor[c], ceiling[c])
            self._drawn.append((means[c].copy(), drawn))

    def posterior(self) -> Posterior:
        """Of all sweeps so far."""
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
