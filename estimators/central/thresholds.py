"""Thresholds of noisy counts, rounded up to integers; released counts are strictly above them.

The tail of a discrete Gaussian at an integer m is at most the tail of the Gaussian at m - 1
(Canonne, Kamath and Steinke, Proposition 25). Noise that is rounded from a lattice of at least two
points per integer is above m - 1 only if it is above m - 1/2 on the lattice, where the same tail is
at most that of the Gaussian at m - 1. Therefore the bounds of the paper hold unchanged.
"""

from __future__ import annotations

from fractions import Fraction
from math import ceil, expm1, log1p, sqrt
from statistics import NormalDist

_NORMAL = NormalDist()


def unseen_threshold(variance: Fraction, limit: int, delta: Fraction) -> int:
    """Return the threshold for values that are not public, rounded up.

    It is ``1 + sd · Phi^-1((1 - delta)^(1 / limit))``: a value of a single record is released with
    a probability of at most delta. The code uses the small tail ``1 - (1 - delta)^(1 / limit)``,
    because it keeps more digits than a number near 1.
    """
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
