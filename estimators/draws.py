"""Exact random choices by the digits of a uniform number: packed coins, and one of many cells.

A uniform number U in [0, 1) is read digit by digit, words of 16 or 32 bits, until the digits leave
one outcome only: so each has its exact probability. Edges read the same (docs/perturbing.md).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache, partial
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from calmstream.estimators.randomness import WEIGHT_BITS, Randomness

Bits = NDArray[np.uint8]

COIN_BLOCK = 1 << 16  # bytes of coins made at once, whose words stay in a core's cache
RESPONSE_BLOCK = 1 << 14  # responses made at once, for the same reason
RESPONSE_BYTES = 16  # most random bytes that one response draws, but for a chance below 2^-60
_MAX_TOTAL = 1 << 63
_OTHER = 1 << WEIGHT_BITS
_SHIFT = np.uint64(WEIGHT_BITS)
_UNDECIDED = -1


def coins(size: int, probability: Fraction, randomness: Randomness) -> Bits:
    """Draw 8 · ``size`` independent coins, each 1 with exactly the probability: (size,), packed.

    Eight coins are one choice among the 256 values of a byte, in increasing order, by digits of 16
    bits. One choice in 257 or fewer needs a second digit. Cost: about 2.01 random bytes and one
    table lookup per byte of coins.
    """
    if not 0 <= probability <= 1:
        raise ValueError(f"probability must lie in [0, 1], got {probability}")
    if probability in (0, 1):
        return np.full(size, 0xFF * int(probability), np.uint8)
    table = _coin_table(probability)
    out = np.empty(size, np.uint8)
    for start in range(0, size, COIN_BLOCK):
        block = out[start : start + COIN_BLOCK]
        words = np.frombuffer(randomness.bytes(2 * len(block)), "<u2")
        values = table[words]
        block[:] = values
        places = np.flatnonzero(values == _UNDECIDED)
        if places.size:
            block[places] = _second_digits(words[places], probability, randomness)
    return out


def _second_digits(
    words: NDArray[np.uint16], probability: Fraction, randomness: Randomness
) -> NDArray[np.int64]:
    """Return the bytes of coins whose first digits, shape (n,), leave several outcomes."""
    raw = randomness.bytes(2 * len(words))
    ends, split = _unit_ends(probability, 32)
    numbers = words.astype(np.uint64) << np.uint64(16) | np.frombuffer(raw, "<u2")
    if not np.isin(numbers, split).any():
        found: NDArray[np.int64] = np.searchsorted(ends, numbers, "right")
        return found
    # A byte that needs a third digit takes the next one, so that all later bytes take others.
    digits = _Digits(raw, randomness)
    byte_ends = _byte_ends(probability)
    settled = (
        _settle(int(word), 16, byte_ends[-1], partial(bisect_right, byte_ends), digits)
        for word in words
    )
    return np.array(list(settled), np.int64)


class _Digits:
    """A source of bytes that were drawn already, then of others."""

    def __init__(self, drawn: bytes, randomness: Randomness) -> None:
        self._drawn = drawn
        self._randomness = randomness

    def bytes(self, count: int) -> bytes:
        first, self._drawn = self._drawn[:count], self._drawn[count:]
        return first + self._randomness.bytes(count - len(first)) if len(first) < count else first


def coins_bytes(size: int) -> int:
    """Return the most random bytes that :func:`coins` draws, but for a chance below 2^-60."""
    return 2 * size + 2 * (size // 8 + 64)


def respond(
    values: NDArray[np.integer], cells: int, weight: int, randomness: Randomness
) -> NDArray[np.int64]:
    """Randomise every value: the value itself with odds weight : 2^32 against any other given cell.

    The outcomes in order are the value itself (weight ``weight``), then the other cells in
    increasing order (2^32 each); digits have 32 bits. ``values``, and what is returned as int64:
    (n,), integers in [0, cells). Cost: 4 random bytes a value, 4 more with chance cells / 2^32.
    """
    total = weight + (cells - 1) * _OTHER
    if total >= _MAX_TOTAL:
        raise ValueError(f"the weights sum to {total}, which is not below 2^63")
    out = np.empty(len(values), np.int64)
    for start in range(0, len(values), RESPONSE_BLOCK):
        value = values[start : start + RESPONSE_BLOCK].astype(np.int64)
        other = _other_cells(total, weight, len(value), randomness)
        changed = other >= 0
        other += other >= value
        np.copyto(value, other, where=changed)
        out[start : start + RESPONSE_BLOCK] = value
    return out


def _other_cells(total: int, weight: int, size: int, randomness: Randomness) -> NDArray[np.int64]:
    """Choose for every response: negative for the truth, or the number of the other cell."""
    words = np.frombuffer(randomness.bytes(4 * size), "<u4")
    high, low = np.uint64(total >> WEIGHT_BITS), np.uint64(total & (_OTHER - 1))
    digits = words.astype(np.uint64)
    # floor(U · total), where all further digits are 0: U lies in [digits, digits + 1) / 2^32.
    place = (digits * high + (digits * low >> _SHIFT)).astype(np.int64) - weight
    other = place >> WEIGHT_BITS
    # A place this near the end of its interval may leave it with the further digits.
    near = (place & (_OTHER - 1)) >= _OTHER - (total >> WEIGHT_BITS) - 2
    for i in np.flatnonzero(near):
        other[i] = _settle(
            int(words[i]), 32, total, lambda p: (p - weight) >> WEIGHT_BITS, randomness
        )
    np.maximum(other, -1, out=other)
    return other


def _settle(
    number: int, width: int, total: int, outcome: Callable[[int], int], randomness: Randomness
) -> int:
    """Read further digits until they leave one outcome only."""
    bits = width
    while True:
        first = outcome(number * total >> bits)
        last = outcome(-(-(number + 1) * total >> bits) - 1)
        if first == last or last < 0:
            return first
        digit = int.from_bytes(randomness.bytes(width // 8), "little")
        number = number << width | digit
        bits += width


@lru_cache(maxsize=256)
def _byte_ends(probability: Fraction) -> list[int]:
    """Return where the intervals of the 256 values of a byte of coins end, in whole numbers."""
    one, zero = probability.numerator, probability.denominator - probability.numerator
    return list(accumulate(one ** v.bit_count() * zero ** (8 - v.bit_count()) for v in range(256)))


@lru_cache(maxsize=256)
def _unit_ends(probability: Fraction, bits: int) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Return where the intervals of the values of a byte end, in units of 2^-bits: shape (256,).

    Ends are rounded up: a number of so many bits is of the value before whose end it is, unless an
    end lies inside its own unit. Also returns the numbers of which that is true.
    """
    ends, total = _byte_ends(probability), _byte_ends(probability)[-1]
    split = [(end << bits) // total for end in ends if (end << bits) % total]
    whole = np.array([-(-(end << bits) // total) for end in ends], np.uint64)
    return whole, np.array(split, np.uint64)


@lru_cache(maxsize=64)
def _coin_table(probability: Fraction) -> NDArray[np.int16]:
    """Return the outcome of every first digit, or -1 if it leaves several: shape (65536,)."""
    whole, split = _unit_ends(probability, 16)
    first = np.concatenate([[0], whole[:-1]]).astype(np.int64)
    table = np.repeat(np.arange(256, dtype=np.int16), whole.astype(np.int64) - first)
    table[split.astype(np.int64)] = _UNDECIDED
    return table
