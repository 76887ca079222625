"""A differentially private quantile of small integers by the exponential mechanism, exact."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from estimators.central.discrete_gaussian import bernoulli_exp
from estimators.errors import InvalidInput
from estimators.randomness import uniform_below

if TYPE_CHECKING:
    from estimators.randomness import Randomness

Integers = NDArray[np.int64]

_BATCH = 1 << 12


def private_quantile(
    sizes: Integers,
    largest: int,
    quantile: Fraction,
    epsilon: Fraction,
    randomness: Randomness,
) -> int:
    """An integer near the quantile, epsilon-DP.

    Weights ``exp(epsilon · u(x) / 2)`` over x in 0..largest with utility
    ``u(x) = -|#{sizes <= x} - quantile · N|``. Adding or removing one user moves the two terms by
    at most max(quantile, 1 - quantile) <= 1 together, so the sensitivity is 1. Sampled by
    rejection from the uniform candidate with coins of odds exp(-rational): no floating point.

    Args:
        sizes: shape (N,), integers in [0, largest]; one per user.
        largest: last candidate.
        quantile: in (0, 1].
        epsilon: loss, positive.
        randomness: the operating system's in production.

    Returns:
        A candidate. Cost: O(N + largest), and at most about ``largest`` proposals in the mean.

    Raises:
        InvalidInput: more users than exact integers allow (about 10^9).
    """
    gaps = _distances(sizes, largest, quantile)
    below = gaps - gaps.min()
    denominator = 2 * quantile.denominator * epsilon.denominator
    if int(below.max()) * epsilon.numerator >= 1 << 63:
        raise InvalidInput("too many users in one release for an exact quantile")
    exponents = below * epsilon.numerator
    while True:
        proposed = uniform_below(largest + 1, _BATCH, randomness)
        accepted = proposed[bernoulli_exp(exponents[proposed], denominator, randomness)]
        if len(accepted):
            return int(accepted[0])


def _distances(sizes: Integers, largest: int, quantile: Fraction) -> Integers:
    """quantile.denominator · |#{sizes <= x} - quantile · N| for every candidate x."""
    at_most = np.cumsum(np.bincount(sizes, minlength=largest + 1))
    wanted = quantile.numerator * len(sizes)
    distances: Integers = np.abs(quantile.denominator * at_most - wanted)
    return distances
