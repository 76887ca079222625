"""Noise of counts, at least as private as Gaussian noise of a given variance, and thresholds.

The noise is a discrete Gaussian on a fine lattice, multiples of 1 / fine, rounded to an integer. It
is drawn exactly. Why it is as private as a Gaussian of ``variance``: take Gaussian noise, and then
a discrete Gaussian of variance 3 / fine^2 on the lattice around it. By Poisson's summation formula
the result has the probabilities of a discrete Gaussian of ``variance + 3 / fine^2`` up to a factor
of ``1 ± 4 exp(-6 pi^2)``, about 1e-25. All counts of all releases of a user together, fewer than
10^11, change the loss by less than 1e-13, for which the accounting has a margin.

Thresholds are rounded up to integers; released counts are strictly above them. The tail of a
discrete Gaussian at an integer m is at most the tail of the Gaussian at m - 1 (Canonne, Kamath and
Steinke, Proposition 25). Noise that is rounded from a lattice of at least two points per integer is
above m - 1 only if it is above m - 1/2 on the lattice, where the same tail is at most that of the
Gaussian at m - 1. Therefore the bounds of the paper hold unchanged.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil, expm1, log1p, sqrt
from statistics import NormalDist

import numpy as np

from calmstream.estimators.central.discrete_gaussian import (
    MAX_VARIANCE,
    Integers,
    discrete_gaussian,
    round_variance,
)
from calmstream.estimators.randomness import Randomness

SMOOTHING = 3  # variance, in steps of the lattice, that makes the lattice as good as the real line
LARGEST = MAX_VARIANCE - SMOOTHING  # maximum variance of :class:`CountNoise`
_FINE = 1 << 12  # minimum variance in steps of the lattice: smoothing costs at most a thousandth
_NORMAL = NormalDist()


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


def unseen_threshold(variance: Fraction, limit: int, delta: Fraction) -> int:
    """Return the threshold for values that are not public, rounded up.

    It is ``1 + sd · Phi^-1((1 - delta)^(1 / limit))``: a value of a single record is released with
    a probability of at most delta.
    """
    # The small tail 1 - (1 - delta)^(1 / limit) keeps more digits than a number near 1.
    tail = -expm1(log1p(-float(delta)) / limit)
    return _rounded_up(1.0 + sqrt(float(variance)) * -_NORMAL.inv_cdf(tail))


def universe_threshold(
    variance: Fraction, previous: int, offered: int, spurious: Fraction
) -> tuple[int, float]:
    """Return the threshold for public candidates, rounded up, and a bound of spurious tuples.

    It is ``sd · Phi^-1(1 - spurious · min(1, previous / offered))``.
    """
    deviation = sqrt(float(variance))
    tail = float(spurious) * min(1.0, previous / offered)
    threshold = _rounded_up(deviation * -_NORMAL.inv_cdf(tail))
    return threshold, offered * _NORMAL.cdf(-threshold / deviation)


def _rounded_up(value: float) -> int:
    # Slightly more than the value, so that the rounding error of Phi^-1 cannot lower the result.
    return ceil(value + 1e-9 * max(1.0, abs(value)))
