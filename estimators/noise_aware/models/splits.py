"""The log density of how two categories of an attribute split the mass that they share.

A category's share p sets the mean ``sqrt(r) (p - 1/r)`` of its feature and the deviation
``unit sqrt(r p (1 - p))``. The log-likelihood, a quadratic form in both, is then
``p (linear + square p) + sqrt(p (1 - p)) (root + tilt p)`` and a constant. See noise-aware.md,
section 5.
"""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt

import numpy as np

from calmstream.estimators.noise_aware.arrays import Floats, Indices
from calmstream.estimators.noise_aware.models.quadratic_form import QuadraticForm

GRID = np.linspace(-3.5, 3.5, 41)
"""Grid of the atanh of how two categories split their mass."""


def _parts(z: Floats) -> tuple[Floats, Floats]:
    """Return twice the parts of both categories, shape (2, ...), and the log of their product."""
    m = np.tanh(z)
    parts = np.empty((2, *z.shape))
    np.add(1.0, m, out=parts[0])
    np.subtract(1.0, m, out=parts[1])
    return parts, np.log(parts[0] * parts[1])


ON_GRID = _parts(GRID[None])


class SplitDensities:
    """Log densities of the splits of an attribute's categories, in all chains at once."""

    def __init__(self, form: QuadraticForm, unit: float, concentration: Floats) -> None:
        """Compute the coefficients of each category.

        Args:
            form: log-likelihood of the attribute's features.
            unit: factor of the features' deviations.
            concentration: of the Dirichlet density of the shares: shape (chains,).
        """
        r = form.products.shape[1]
        mm, ms, ss, m_linear, s_linear = form.coefficients()
        scale = unit * sqrt(r)
        linear = sqrt(r) * m_linear + mm - 0.5 * scale**2 * ss
        square = 0.5 * (scale**2 * ss - r * mm)
        root = scale * (s_linear + ms / sqrt(r))
        tilt = -scale * sqrt(r) * ms
        self._coefficients = np.array([linear, square, root, tilt])  # (4, chains, categories)
        self._concentration = concentration

    def of(self, pairs: Indices, both: Floats) -> Callable[[Floats], Floats]:
        """Return the log density of the splits of disjoint pairs.

        Args:
            pairs: categories: shape (2, pairs).
            both: the mass that they share: shape (chains, pairs).

        Returns:
            A function of the atanh z: `GRID`, or shape (rows, points), to (rows, points), with a
            row for each chain and pair.
        """
        some = self._coefficients[:, :, pairs].swapaxes(1, 2)
        linear, square, root, tilt = some.reshape(4, 2, -1, 1)
        half = 0.5 * np.minimum(both, 1.0).reshape(-1, 1)
        concentration = np.repeat(self._concentration, both.shape[1])[:, None]

        def density(z: Floats) -> Floats:
            parts, log = ON_GRID if z is GRID else _parts(z)
            p = half * parts
            # p (linear + square p) + sqrt(p (1 - p)) (root + tilt p)
            smooth = square * p
            smooth += linear
            smooth *= p
            rest = tilt * p
            rest += root
            rest *= np.sqrt(p * (1.0 - p))
            smooth += rest
            # The Dirichlet density times the derivative of tanh.
            total = concentration * log
            total += smooth[0]
            total += smooth[1]
            return np.asarray(total)

        return density
