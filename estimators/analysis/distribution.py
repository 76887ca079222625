"""The chi-square distribution, also for fractional degrees of freedom.

scipy has it, but would triple the installed numerical packages and double their import time.
"""

from __future__ import annotations

import math

_TERMS = 10_000
"""Maximum number of terms of a series or a fraction; enough for 10^5 degrees of freedom."""

_ENOUGH = 1e-15
"""Relative change at which a series or a fraction ends, near the precision of float64."""


def tail(x: float, freedom: float) -> float:
    """Return P(chi-square > x), the upper incomplete gamma Q(freedom / 2, x / 2), to about 1e-12.

    Below the mean a series (DLMF 8.11.4), above Lentz's algorithm for a fraction (DLMF 8.9.2).
    """
    if x <= 0.0:
        return 1.0
    a, half = freedom / 2.0, x / 2.0
    front = math.exp(a * math.log(half) - half - math.lgamma(a))
    if half < a + 1.0:
        term = total = 1.0 / a
        for i in range(1, _TERMS):
            term *= half / (a + i)
            total += term
            if term < total * _ENOUGH:
                break
        return max(1.0 - front * total, 0.0)
    b = half + 1.0 - a
    d = fraction = 1.0 / b
    c = 1e300  # stands for infinity at the start of Lentz's algorithm
    for i in range(1, _TERMS):
        step = i * (a - i)
        b += 2.0
        d = 1.0 / (b + step * d)
        c = b + step / c
        fraction *= c * d
        if abs(c * d - 1.0) < _ENOUGH:
            break
    return min(front * fraction, 1.0)


def critical_value(alpha: float, freedom: float) -> float:
    """Return what chi-square exceeds with probability alpha: bisection, to a relative 1e-10."""
    low, high = 0.0, freedom + 10.0
    while tail(high, freedom) > alpha:
        high *= 2.0
    while high - low > 1e-10 * high:
        middle = (low + high) / 2.0
        low, high = (middle, high) if tail(middle, freedom) > alpha else (low, middle)
    return high
