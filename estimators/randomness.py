"""Random integers from uniform random bytes, and the exact weight of e^epsilon.

Every draw has exactly the stated distribution, without floating point: the promise of privacy
depends on it. The true input has the weight `exp_weight`, every other input the weight 2^32.
"""

from __future__ import annotations

import os
import re
from decimal import ROUND_FLOOR, Context, Decimal
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from calmstream.common.errors import PlanError

WEIGHT_BITS = 32  # binary logarithm of the weight of every input other than the true one
MAX_EPSILON = Decimal(128)  # of a report, which can spend it in parts, such as 16 for each of 8
MAX_PART = Decimal(16)  # with a larger one, the output is practically always the truth
MIN_EPSILON = Decimal("0.001")  # of a report; with a smaller one, estimates would be noise only
MAX_DIVISOR = 4096
"""Maximum number of parts of epsilon. Even one of 4096 parts of the smallest epsilon changes the
weight of the truth by more than a thousand units, so rounding it down loses little."""

_CONTEXT = Context(prec=60, rounding=ROUND_FLOOR)  # far more digits than the largest weight's 17
_DECIMAL = re.compile(r"(0|[1-9][0-9]{0,3})(\.[0-9]{1,20})?", re.ASCII)
"""Epsilon as plans write it, such as "0.25": without sign, exponent or spaces, digits 0 to 9."""


class Randomness(Protocol):
    """A source of independent uniform bytes."""

    def bytes(self, count: int) -> bytes: ...


class SystemRandomness:
    """The operating system's CSPRNG: the only source that may perturb a real record."""

    def bytes(self, count: int) -> bytes:
        return os.urandom(count)


class SeededRandomness:
    """A reproducible source for tests and simulation; never for a real record."""

    def __init__(self, seed: int | np.random.SeedSequence) -> None:
        self._generator = np.random.PCG64(seed)

    def bytes(self, count: int) -> bytes:
        # The generator's own words are several times as fast as Generator.bytes or .integers.
        words = np.asarray(self._generator.random_raw(-(-count // 8)), np.uint64)
        return words.astype("<u8", copy=False).tobytes()[:count]


def parse_epsilon(text: object) -> Decimal:
    if not isinstance(text, str) or _DECIMAL.fullmatch(text) is None:
        raise PlanError(f'epsilon must be a decimal number in a string such as "0.5", got {text!r}')
    value = Decimal(text)
    if not MIN_EPSILON <= value <= MAX_EPSILON:
        raise PlanError(f"epsilon must be from {MIN_EPSILON} to {MAX_EPSILON}, got {text}")
    return value


def exp_weight(epsilon: str, divisor: int = 1) -> int:
    """Return ``floor(exp(epsilon / divisor) · 2^32)``, the weight of the truth.

    Every step rounds down. Therefore the realised loss ``ln(weight / 2^32) · divisor`` is at most
    epsilon, and below it by less than ``divisor · 2^-32``.
    """
    if not 1 <= divisor <= MAX_DIVISOR:
        raise PlanError(f"epsilon can be spent in 1 to {MAX_DIVISOR} parts, got {divisor}")
    exponent = _CONTEXT.divide(parse_epsilon(epsilon), Decimal(divisor))
    if exponent > MAX_PART:
        raise PlanError(
            f"epsilon {epsilon} in {divisor} parts is more than {MAX_PART} per part: use a smaller "
            "epsilon"
        )
    # Decimal.exp ignores the rounding of the context and rounds to the nearest number, so its
    # result can be too large by half a step. The next smaller number is below the true value.
    power = _CONTEXT.next_minus(_CONTEXT.exp(exponent))
    return int(_CONTEXT.multiply(power, Decimal(1 << WEIGHT_BITS)).to_integral_value(ROUND_FLOOR))


def uniform_below(bound: int, size: int, randomness: Randomness) -> NDArray[np.int64]:
    """Return ``size`` independent integers, each exactly uniform on [0, bound): (size,), int64.

    Rejection sampling: a random word is used if it is below the largest multiple of ``bound``. For
    powers of two the word is as short as possible, and none is discarded. For other bounds up to
    2^16 it has 32 bits, so at most 1 word in 2^16 is discarded; for larger bounds it has 64 bits.
    """
    if not 1 <= bound <= 1 << 63:
        raise ValueError(f"bound must be from 1 to 2^63, got {bound}")
    return _remainders(_words_below(bound, size, randomness), bound)


def _word(bound: int) -> np.dtype[np.unsignedinteger[Any]]:
    if bound & (bound - 1) == 0:
        return np.dtype(next(f"<u{b}" for b in (1, 2, 4, 8) if bound <= 1 << 8 * b))
    return np.dtype("<u4" if bound <= 1 << 16 else "<u8")


def uniform_bytes(bound: int, size: int) -> int:
    """Return the most bytes that `uniform_below` draws, but for a probability below 2^-60.

    A word is discarded with a probability of at most 1/3.
    """
    width = _word(bound).itemsize
    return width * size if bound & (bound - 1) == 0 else width * (2 * size + 64)


def _words_below(bound: int, size: int, randomness: Randomness) -> NDArray[Any]:
    """Return ``size`` words that are uniform below the largest multiple of ``bound``."""
    word = _word(bound)
    wide = 1 << 8 * word.itemsize
    last = wide - wide % bound - 1
    words = np.frombuffer(randomness.bytes(word.itemsize * size), word)
    if size and last < wide - 1 and int(words.max()) > last:
        words = words[words <= last]
        while len(words) < size:
            missing = word.itemsize * (size - len(words))
            more = np.frombuffer(randomness.bytes(missing), word)
            words = np.concatenate([words, more[more <= last]])
    return words


def _remainders(words: NDArray[Any], bound: int) -> NDArray[np.int64]:
    """Return ``words % bound``: numpy divides by a constant much faster than that."""
    if bound & (bound - 1) == 0:
        rest: NDArray[Any] = words & words.dtype.type(bound - 1)
        return rest.astype(np.int64)
    rest = words // words.dtype.type(bound)
    rest *= words.dtype.type(bound)
    np.subtract(words, rest, out=rest)
    return rest.astype(np.int64)
