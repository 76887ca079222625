"""A differentially private quantile of small integers by the exponential mechanism, exact."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from estimators.central.discrete_gaussian import bernoulli_exp_parts
from estimators.randomness import uniform_below

if TYPE_CHECKING:
    from estimators.randomness import Randomness

Integers = NDArray[np.int64]

_BATCH = 1 << 12

_NEVER = 1 << 62
"""A coin with odds exp(-2^62) never shows heads: larger exponents are this one."""


def private_quantile(
    sizes: Integers,
    largest: int,
    quantile: Fraction,
    epsilon: Fraction,
    randomness: Randomness,
) -> int:
    """Return an integer near the quantile, epsilon-DP.

    Weights ``exp(epsilon · u(x) / 2)`` over x in 0..largest with utility
    ``u(x) = -|#{sizes <= x} - quantile · N|``. Adding or removing one user moves the two terms by
    at most max(quantile, 1 - quantile) <= 1 together, so the sensitivity is 1. Sampled by
    rejection from the uniform candidate with coins of odds exp(-rational): no floating point.

    Args:
        sizes: shape (N,), integers from 0 on; one per user. Larger ones count as ``largest``.
        largest: last candidate; public.
        quantile: in (0, 1].
        epsilon: loss, positive.
        randomness: the operating system's in production.

    Returns:
        A candidate. Cost: O(N + largest), and at most about ``largest`` proposals in the mean.
    """
    gaps = _distances(sizes, largest, quantile)
    denominator = 2 * quantile.denominator * epsilon.denominator
    least = min(gaps)
    # In integers of any size, as N and epsilon may be large.
    exponents = [(gap - least) * epsilon.numerator for gap in gaps]
    whole = np.array([min(e // denominator, _NEVER) for e in exponents], np.int64)
    part = np.array([e % denominator for e in exponents], np.int64)
    while True:
        proposed = uniform_below(largest + 1, _BATCH, randomness)
        heads = bernoulli_exp_parts(whole[proposed], part[proposed], denominator, randomness)
        if heads.any():
            return int(proposed[heads][0])


def _distances(sizes: Integers, largest: int, quantile: Fraction) -> list[int]:
    """quantile.denominator · |#{sizes <= x} - quantile · N| for every candidate x."""
    of_size = np.bincount(np.minimum(sizes, largest), minlength=largest + 1)
    wanted = quantile.numerator * len(sizes)
    at_most = np.cumsum(of_size).tolist()
    return [abs(quantile.denominator * count - wanted) for count in at_most]
