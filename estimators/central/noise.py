"""Noise of counts: integers that are at least as private as Gaussian noise of a given variance.

The noise is a discrete Gaussian on a fine lattice, multiples of 1 / fine, rounded to an integer. It
is drawn exactly. Why it is as private as a Gaussian of ``variance``: take Gaussian noise, and then
a discrete Gaussian of variance 3 / fine^2 on the lattice around it. By Poisson's summation formula
the result has the probabilities of a discrete Gaussian of ``variance + 3 / fine^2`` up to a factor
of ``1 ± 4 exp(-6 pi^2)``, about 1e-25. All counts of all releases of a user together, fewer than
10^11, change the loss by less than 1e-13, for which the accounting has a margin.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from calmstream.estimators.central.discrete_gaussian import (
    MAX_VARIANCE,
    discrete_gaussian,
    round_variance,
)
from calmstream.estimators.randomness import Randomness

Integers = NDArray[np.int64]

SMOOTHING = 3
"""Variance, in steps of the lattice, that makes the lattice as good as the real line."""

LARGEST = MAX_VARIANCE - SMOOTHING
"""Maximum variance of :class:`CountNoise`."""

_FINE = 1 << 12
"""Minimum variance in steps of the lattice: smoothing costs at most a thousandth."""


@dataclass(frozen=True, slots=True)
class CountNoise:
    """Noise as private as Gaussian noise of ``variance``, for counts that change by 1."""

    variance: Fraction

    @property
    def fine(self) -> int:
        """Lattice points between two integers, a power of two."""
        fine = 1
        while fine * fine * self.variance < _FINE:
            fine *= 2
        return fine

    @property
    def steps(self) -> Fraction:
        """Variance of what is drawn, in steps of the lattice."""
        return round_variance(self.fine**2 * self.variance + SMOOTHING)

    @property
    def published(self) -> Fraction:
        """Variance of the integers, rounded up; rounding adds a twelfth."""
        rounding = Fraction(1, 12) if self.fine > 1 else 0
        return self.steps / self.fine**2 + rounding

    def draw(self, size: int, randomness: Randomness) -> Integers:
        """Return shape (size,), int64; ties are rounded away from 0, so that the mean is 0."""
        drawn = discrete_gaussian(self.steps, size, randomness)
        rounded = (2 * np.abs(drawn) + self.fine) // (2 * self.fine)
        return np.asarray(np.sign(drawn) * rounded)
