"""The chi-square distribution, also for fractional degrees of freedom.

scipy has it, but would triple the installed numerical packages and double their import time.
"""

from __future__ import annotations

import math
from collections.abc import Callable

_TERMS = 10_000  # most terms of a series or a fraction; enough for 10^5 degrees of freedom
_ENOUGH = 1e-15  # relative change at which they end, near the precision of float64


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
    """Return what chi-square exceeds with probability alpha, to a relative 1e-10."""
    return least(lambda x: tail(x, freedom) <= alpha, freedom + 10.0, 1e-10)


def least(holds: Callable[[float], bool], guess: float, precision: float) -> float:
    """Return from where on a condition holds above 0, by bisection to a relative precision."""
    low, high = 0.0, guess
    while not holds(high):
        high *= 2.0
    while high - low > precision * high:
        middle = (low + high) / 2.0
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
