"""Posterior of first and second moments, whatever model draws them: means, variances, draws.

`PosteriorAccumulator` builds it from a model's sweeps. See noise-aware.md, section 4.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from calmstream.estimators.noise_aware.arrays import Flags, Floats
from calmstream.estimators.numerics.sampling import truncated

DRAWS = 40
"""Posterior draws that are kept for intervals: enough for a 95 % quantile to lie between two."""


@dataclass(frozen=True, slots=True, eq=False)
class Posterior:
    """Means, variances and draws of the first and second moments."""

    means: Floats  # (size,)
    mean_variance: Floats  # (size,)
    products: Floats  # (size, size); blocks of an attribute with itself have no meaning
    product_variance: Floats  # (size, size)
    residual: float  # Posterior mean of the scale of the residuals
    drawn_means: Floats  # (draws, size)
    drawn_products: Floats  # (draws, size, size)


def draws_for(cells: int) -> int:
    """Return the number of draws for a table's intervals: fewer, at least 8, for large tables."""
    return max(8, min(DRAWS, (1 << 18) // cells))


class PosteriorAccumulator:
    """Sums over the kept sweeps of a model, which draws all but the residuals of second moments.

    Given the estimates a residual is normal. So its mean and variance, which are known exactly,
    replace its draw (Rao and Blackwell). Second moments of two binary attributes are kept within
    Frechet's bounds.
    """

    def __init__(
        self, estimates: tuple[Floats, Floats, Flags], binary: Flags, random: np.random.Generator
    ) -> None:
        """Start without sweeps.

        ``estimates`` of second moments are values, variances, and whether there is one, of shape
        (size, size) each. ``binary``, shape (size,), says which features are those of binary
        attributes.
        """
        self._estimates, self._random = estimates, random
        self._bounded = np.nonzero(binary[:, None] & binary)
        self._count, self._sums = 0, [np.zeros(())] * 5
        self._drawn: list[tuple[Floats, Floats]] = []

    def add(
        self,
        means: Floats,
        low: Floats,
        residual: Floats,
        tau: Floats,
        expected: Callable[[Floats], Floats] | None = None,
        *,
        draw: bool,
    ) -> None:
        """Add one sweep of all chains.

        Args:
            means: first moments: shape (chains, size).
            low: second moments without residuals: shape (chains, size, size).
            residual: prior variances of residuals, of the same shape.
            tau: scale of residuals: shape (chains,).
            expected: maps gains of residuals to less noisy conditional means of second moments,
                shape (chains, size, size) both; None: there are none.
            draw: whether to keep this sweep of one chain as a posterior draw.
        """
        values, noise, known = self._estimates
        gain = np.where(known, residual / (residual + noise), 0.0)
        mean = low + gain * (values - low)
        spread = residual * (1.0 - gain)
        i, j = self._bounded
        a, b = means[:, i], means[:, j]
        floor, ceiling = np.abs(a + b) - 1.0, 1.0 - np.abs(a - b)  # Frechet's bounds
        mean[:, i, j], spread[:, i, j] = truncated(
            mean[:, i, j], np.sqrt(spread[:, i, j]) + 1e-9, floor, ceiling
        )
        best = mean if expected is None else expected(gain)
        best[:, i, j] = mean[:, i, j]
        terms = (means, np.square(means), best, np.square(mean) + spread, tau)
        self._sums = [own + term.sum(axis=0) for own, term in zip(self._sums, terms, strict=True)]
        self._count += len(means)
        if draw:
            c = len(self._drawn) % len(means)  # chains in turn: draws of one are alike
            drawn = self._draw(mean[c], spread[c], floor[c], ceiling[c])
            self._drawn.append((means[c].copy(), drawn))

    def _draw(self, mean: Floats, variance: Floats, floor: Floats, ceiling: Floats) -> Floats:
        """Draw second moments of one chain, within the bounds: shape (size, size)."""
        normal = np.triu(self._random.normal(size=mean.shape), 1)
        drawn = mean + np.sqrt(variance) * (normal + normal.T)
        drawn[self._bounded] = np.clip(drawn[self._bounded], floor, ceiling)
        return np.asarray(drawn, np.float64)

    def posterior(self) -> Posterior:
        """Return the posterior from all sweeps so far."""
        means, squares, products, product_squares, tau = (s / self._count for s in self._sums)
        return Posterior(
            means,
            np.maximum(squares - np.square(means), 0.0),
            products,
            np.maximum(product_squares - np.square(products), 0.0),
            float(tau),
            np.array([m for m, _ in self._drawn]),
            np.array([p for _, p in self._drawn]),
        )
