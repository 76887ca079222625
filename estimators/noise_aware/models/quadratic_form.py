"""The log-likelihood of the mean of one feature given all others, and draws of the mean.

Second moments are linear in a feature's mean m and deviation s: ``M_ij = m m_j + s lever_j``. So
their log-likelihood is a quadratic form in (m, s); see noise-aware.md, section 5.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import numpy as np

from calmstream.estimators.noise_aware.arrays import Floats
from calmstream.estimators.numerics.sampling import choose

FINE_GRID = np.linspace(-0.6, 0.6, 25)
"""Points of a finer grid, in steps of the grid before."""


@dataclass(frozen=True, slots=True, eq=False)
class QuadraticForm:
    """A quadratic form in the mean and deviation of each feature of an attribute."""

    # (chains, features, 3, 3): weighted products of the factors of m, those of s and the estimates.
    products: Floats

    @classmethod
    def of_pairs(cls, others: Floats, levers: Floats, estimates: Floats, weight: Floats) -> Self:
        """Sum over the features of all attributes; cost O(chains · features · size).

        Args:
            others: means of all features, the factors of m: shape (chains, size).
            levers: factors of s: shape (chains, features, size).
            estimates: estimated second moments: shape (features, size).
            weight: their precisions, 0 within an attribute: shape (chains, features, size).
        """
        rows = np.empty((*levers.shape[:2], 3, levers.shape[2]))
        rows[:, :, 0] = others[:, None]
        rows[:, :, 1] = levers
        rows[:, :, 2] = estimates
        return cls((rows * weight[:, :, None]) @ rows.transpose(0, 1, 3, 2))

    def add_mean(self, precision: Floats, estimates: Floats) -> None:
        """Add estimates of the means themselves with their precisions: shape (features,) both."""
        self.products[:, :, 0, 0] += precision
        self.products[:, :, 0, 2] += precision * estimates

    def coefficients(self) -> Floats:
        """Return the coefficients of m², m s, s², m and s: shape (5, chains, features).

        The form is ``m (c3 - c0 m / 2 - c1 s) + s (c4 - c2 s / 2)``.
        """
        products = self.products
        return np.stack(
            [
                products[:, :, 0, 0],
                products[:, :, 0, 1],
                products[:, :, 1, 1],
                products[:, :, 0, 2],
                products[:, :, 1, 2],
            ]
        )

    def score(self, m: Floats, s: Floats) -> Floats:
        """Evaluate the first feature at means m and deviations s.

        Shape (grid,) or (chains, grid) to (chains, grid).
        """
        first = self.products[:, 0]
        mm, ms, ss = first[:, 0, 0, None], first[:, 0, 1, None], first[:, 1, 1, None]
        m_linear, s_linear = first[:, 0, 2, None], first[:, 1, 2, None]
        return np.asarray(m * (m_linear - 0.5 * mm * m - ms * s) + s * (s_linear - 0.5 * ss * s))


def refined(random: np.random.Generator, score: Callable[[Floats], Floats], grid: Floats) -> Floats:
    """Draw tanh(z) for each row: z from an even grid, then from a finer one about it.

    ``score`` maps z, shape (grid,) or (rows, points), to log densities, (rows, points). Where
    nearly all mass is on one point of the finer grid, a still finer one follows.
    """
    sharp = 4.0  # lead of the best point in log density from which on a finer grid is needed
    finest = 1e-7  # smallest step of a grid
    z, step = grid[choose(random, score(grid))], grid[1] - grid[0]
    rows = np.arange(z.size)
    while True:
        near = z[:, None] + step * FINE_GRID
        value = score(near)
        z = near[rows, choose(random, value)]
        value.partition(-2, axis=1)
        step *= FINE_GRID[1] - FINE_GRID[0]
        if float((value[:, -1] - value[:, -2]).max()) < sharp or step < finest:
            return np.asarray(np.tanh(z), np.float64)
