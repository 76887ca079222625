"""Exact discrete Gaussian noise in integers (Canonne, Kamath and Steinke 2020), many at a time.

``P(x) ∝ exp(-x^2 / (2 variance))`` over all integers. There is no floating point: every coin has a
rational probability, and a coin with probability ``exp(-gamma)`` is made from such coins by the
paper's Algorithm 1. Every step of rejection sampling draws all that are still missing at once.
"""

from __future__ import annotations

from fractions import Fraction
from math import ceil, isqrt

import numpy as np
from numpy.typing import NDArray

from calmstream.common.errors import PlanError
from calmstream.estimators.randomness import Randomness, uniform_below

Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]

# A standard deviation of 16,384. With it, nearly all products are below 2^63; the rare others are
# computed with integers of any size.
MAX_VARIANCE = 1 << 28
# Bound of the denominator of a variance times the square of the Laplace scale (about its root), so
# that products of squares fit in 63 bits.
_MAX_SCALED_DENOMINATOR = 1 << 25
_LARGEST_ROOT = isqrt((1 << 63) - 1)  # largest integer whose square fits in 63 bits
_EXTRA = 16  # proposals beyond twice the missing numbers: another round is rarely needed
NEVER = 1 << 62  # larger exponents become this: a coin of exp(-2^62) never succeeds


def round_variance(variance: Fraction) -> Fraction:
    """Return the variance rounded up to a fraction that the sampler can use.

    It grows by less than 2^-24 of ``(sqrt(variance) + 1)^2``.
    """
    if not 0 < variance <= MAX_VARIANCE:
        raise PlanError(
            f"the variance of noise must be above 0 and at most {MAX_VARIANCE:,}, got "
            f"{float(variance):.3g}: use a larger privacy budget per release"
        )
    scale = isqrt(int(variance)) + 1
    denominator = 1 << max(0, (_MAX_SCALED_DENOMINATOR // (scale * scale)).bit_length() - 1)
    return Fraction(ceil(variance * denominator), denominator)


def discrete_gaussian(variance: Fraction, size: int, randomness: Randomness) -> Integers:
    """Return discrete Gaussian integers, shape (size,), int64; about 60 random words for each.

    ``variance`` is from `round_variance`: a product could exceed 63 bits with another one.
    """
    a, b = variance.numerator, variance.denominator
    scale = isqrt(a // b) + 1
    out = np.empty(0, np.int64)
    while len(out) < size:
        proposed = discrete_laplace(scale, 2 * (size - len(out)) + _EXTRA, randomness)
        kept = _accept(proposed, a, b, scale, randomness)
        out = np.concatenate([out, proposed[kept]])
    return out[:size]


def _accept(proposed: Integers, a: int, b: int, scale: int, randomness: Randomness) -> Flags:
    """Draw whether each y is accepted: with ``exp(-(|y| - variance / scale)^2 / (2 variance))``."""
    size = np.abs(proposed)
    far = size > (_LARGEST_ROOT + a) // (b * scale)
    denominator = 2 * a * b * scale * scale
    root = np.where(far, 0, size) * (b * scale) - a
    whole, part = np.divmod(np.square(root), denominator)
    for place in np.flatnonzero(far):  # products above 63 bits: at most a few in a million
        square = (int(size[place]) * b * scale - a) ** 2
        whole[place], part[place] = min(square // denominator, NEVER), square % denominator
    return bernoulli_exp(whole, part, denominator, randomness)


def discrete_laplace(scale: int, size: int, randomness: Randomness) -> Integers:
    """Return ``size`` independent integers with P(x) ∝ exp(-|x| / scale), by Algorithm 2."""
    out = np.empty(0, np.int64)
    while len(out) < size:
        low = uniform_below(scale, 2 * (size - len(out)) + _EXTRA, randomness)
        low = low[_alternating(low, scale, randomness)]
        magnitude = low + scale * _geometric(len(low), randomness)
        negative = uniform_below(2, len(low), randomness) == 1
        magnitude[negative] *= -1
        out = np.concatenate([out, magnitude[~negative | (magnitude != 0)]])
    return out[:size]


def _geometric(size: int, randomness: Randomness) -> Integers:
    """Count the successes, each of probability exp(-1), before the first failure."""
    count = np.zeros(size, np.int64)
    active = np.arange(size)
    while len(active):
        active = active[_alternating(np.ones(len(active), np.int64), 1, randomness)]
        count[active] += 1
    return count


def bernoulli_exp(
    whole: Integers, part: Integers, denominator: int, randomness: Randomness
) -> Flags:
    """Draw coins that are True with probability exactly exp(-(whole + part / denominator)).

    Args:
        whole, part: shape (n,); at least 0, and 0 to denominator - 1.
    """
    whole = whole.copy()
    heads = np.ones(len(whole), np.bool_)
    active = np.flatnonzero(whole > 0)
    while len(active):  # exp(-whole) = exp(-1)^whole; most coins are decided after two rounds
        survived = _alternating(np.ones(len(active), np.int64), 1, randomness)
        heads[active[~survived]] = False
        active = active[survived]
        whole[active] -= 1
        active = active[whole[active] > 0]
    rest = np.flatnonzero(heads)
    heads[rest] = _alternating(part[rest], denominator, randomness)
    return heads


def _alternating(part: Integers, denominator: int, randomness: Randomness) -> Flags:
    """Draw coins that are True with probability exp(-ratio), ratio = part / denominator in [0, 1].

    For K = 1, 2, ... draw a coin of probability ratio / K, as two of ratio and 1 / K, until one
    fails; then K is odd with probability exp(-ratio).
    """
    odd = np.zeros(len(part), np.bool_)
    active = np.arange(len(part))
    k = 1
    while len(active):
        success = uniform_below(denominator, len(active), randomness) < part[active]
        if k > 1:
            success &= uniform_below(k, len(active), randomness) == 0
        odd[active[~success]] = k % 2 == 1
        active = active[success]
        k += 1
    return odd
