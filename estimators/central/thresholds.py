"""Thresholds of noisy counts, rounded up to integers; counts must be strictly above them.

A discrete Gaussian's tail at an integer m is at most the Gaussian's at m - 1 (Canonne, Kamath and
Steinke, Proposition 25), so that the paper's bounds hold as they stand.
"""

from __future__ import annotations

from fractions import Fraction
from math import ceil, expm1, log1p, sqrt
from statistics import NormalDist

_NORMAL = NormalDist()


def unseen_threshold(variance: Fraction, limit: int, delta: Fraction) -> int:
    """rho_1 = 1 + sd · Phi^-1((1 - delta)^(1 / limit)), rounded up; ``delta`` is the whole share.

    The tail 1 - (1 - delta)^(1/limit) is what Phi^-1 is taken of, for its digits' sake.
    """
    tail = -expm1(log1p(-float(delta)) / limit)
    return _rounded_up(1.0 + sqrt(float(variance)) * -_NORMAL.inv_cdf(tail))


def universe_threshold(
    variance: Fraction, previous: int, offered: int, spurious: Fraction
) -> tuple[int, float]:
    """rho_k = sd · Phi^-1(1 - eta min(1, |S_{k-1}| / |V_k|)), rounded up, and the bound it gives.

    Returns:
        The threshold, and the expected number of spurious tuples at most (Proposition 1.1).
    """
    deviation = sqrt(float(variance))
    tail = float(spurious) * min(1.0, previous / offered)
    threshold = _rounded_up(deviation * -_NORMAL.inv_cdf(tail))
    return threshold, offered * _NORMAL.cdf(-threshold / deviation)


def _rounded_up(value: float) -> int:
    # A hair more than the value, so that the rounding of Phi^-1 cannot take a unit away.
    return ceil(value + 1e-9 * max(1.0, abs(value)))
