"""Uniform integers and coins with rational odds from a byte source: exact, no floating point.

Privacy rests on this file: the production source is the operating system's CSPRNG, and every draw
has exactly the stated distribution. Seeded sources exist for tests and simulation only.
"""

from __future__ import annotations

import os
import re
from decimal import ROUND_FLOOR, Context, Decimal
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from estimators.errors import PlanError

if TYPE_CHECKING:
    from fractions import Fraction

Bits = NDArray[np.uint8]

WEIGHT_BITS = 32
"""Weights of inputs: 2^32 each, but for the true one, which weighs floor(e^epsilon · 2^32)."""

MAX_EPSILON = Decimal(128)
"""Total of a report that spends epsilon in many parts: 16 for each of 8 attributes."""

MAX_PART = Decimal(16)
"""Beyond this a randomised part is the truth for all practical purposes; refused as absurd."""

MIN_EPSILON = Decimal("0.001")

MAX_DIVISOR = 4096
"""Even the smallest epsilon in so many parts moves the weight by more than a thousand units."""

_CONTEXT = Context(prec=60, rounding=ROUND_FLOOR)

_DECIMAL = re.compile(r"(0|[1-9][0-9]{0,3})(\.[0-9]{1,20})?", re.ASCII)
"""How a plan spells epsilon: "1", "0.25"; no sign, exponent, space or other script's digits."""

PLANES = 8
"""Binary digits of a coin's odds that are compared for every coin before ties are settled."""

COIN_BLOCK = 1 << 16
"""Bytes of coins made at once: the eight planes of one block fit a core's cache."""


class Randomness(Protocol):
    """A source of independent uniform bytes."""

    def bytes(self, count: int) -> bytes:
        """Return exactly ``count`` uniform bytes."""


class SystemRandomness:
    """The operating system's CSPRNG: the only source that may perturb a real record."""

    def bytes(self, count: int) -> bytes:
        """See :class:`Randomness`."""
        return os.urandom(count)


class SeededRandomness:
    """A reproducible source for tests and simulation; never for a real record."""

    def __init__(self, seed: int | np.random.SeedSequence) -> None:
        self._generator = np.random.Generator(np.random.PCG64(seed))

    def bytes(self, count: int) -> bytes:
        """See :class:`Randomness`."""
        # Whole words: several times as fast as Generator.bytes.
        words = self._generator.integers(0, 1 << 64, -(-count // 8), dtype=np.uint64)
        return words.astype("<u8", copy=False).tobytes()[:count]


def parse_epsilon(text: str) -> Decimal:
    """Return the privacy loss as an exact decimal.

    Raises:
        PlanError: not a plain decimal string such as "0.5", or outside [0.001, 128].
    """
    if not _is_decimal(text):
        raise PlanError(f'epsilon must be a decimal number in a string such as "0.5", got {text!r}')
    value = Decimal(text)
    if not MIN_EPSILON <= value <= MAX_EPSILON:
        raise PlanError(f"epsilon must lie between {MIN_EPSILON} and {MAX_EPSILON}, got {text}")
    return value


def _is_decimal(text: object) -> bool:
    return isinstance(text, str) and _DECIMAL.fullmatch(text) is not None


def exp_weight(epsilon: str, divisor: int = 1) -> int:
    """floor(exp(epsilon / divisor) · 2^32), rounded down at every step.

    The realised loss ln(weight / 2^32) · divisor is therefore never above epsilon, and short of it
    by less than divisor · 2^-32.

    Args:
        epsilon: see :func:`parse_epsilon`.
        divisor: number of equal parts that epsilon is spent in, 1 to 4096.

    Raises:
        PlanError: an absurd epsilon, in all or per part.
    """
    if not 1 <= divisor <= MAX_DIVISOR:
        raise PlanError(f"epsilon is spent in 1 to {MAX_DIVISOR} parts, got {divisor}")
    exponent = _CONTEXT.divide(parse_epsilon(epsilon), Decimal(divisor))
    if exponent > MAX_PART:
        raise PlanError(f"epsilon {epsilon} in {divisor} parts is above {MAX_PART} a part")
    # Decimal.exp is correctly rounded but half-even whatever the context says: one step down is
    # below the true power, because the error is at most half of the step above the result's
    # lower neighbour.
    power = _CONTEXT.next_minus(_CONTEXT.exp(exponent))
    return int(_CONTEXT.multiply(power, Decimal(1 << WEIGHT_BITS)).to_integral_value(ROUND_FLOOR))


def uniform_below(bound: int, size: int, randomness: Randomness) -> NDArray[np.int64]:
    """``size`` independent integers, each exactly uniform on [0, bound).

    Rejection sampling: a random word is used if it lies below the largest multiple of ``bound``.
    Powers of two waste none and take the shortest word; other bounds up to 2^16 take 32 bits (at
    most 1 word in 2^16 is thrown away), larger ones 64.

    Args:
        bound: 1 to 2^63.
        size: number of draws.
        randomness: where the words come from.

    Returns:
        Shape (size,), int64. Cost: 1 to 8 random bytes a draw.
    """
    if not 1 <= bound <= 1 << 63:
        raise ValueError(f"bound must lie in [1, 2^63], got {bound}")
    return _remainders(_words_below(bound, size, randomness, np.dtype(_word(bound))), bound)


def _word(bound: int) -> str:
    if bound & (bound - 1) == 0:
        return next(f"<u{b}" for b in (1, 2, 4, 8) if bound <= 1 << 8 * b)
    return "<u4" if bound <= 1 << 16 else "<u8"


def uniform_bytes(bound: int, size: int) -> int:
    """Return the most bytes that :func:`uniform_below` draws, except with probability 2^-60.

    A word is thrown away with a chance of at most 1/3.
    """
    width = np.dtype(_word(bound)).itemsize
    return width * size if bound & (bound - 1) == 0 else width * (2 * size + 64)


def coins_bytes(size: int) -> int:
    """Return the most random bytes that :func:`coins` draws for any odds, with the same exception.

    Of 8 · ``size`` coins no more than one in 64, and 64, are tied.
    """
    return PLANES * size + uniform_bytes((1 << 63) - 1, -(-size // 8) + 64)


def _words_below(
    bound: int, size: int, randomness: Randomness, word: np.dtype[np.unsignedinteger[Any]]
) -> NDArray[Any]:
    """Return words that are uniform below the largest multiple of ``bound``."""
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
    """``words % bound``; a division by a constant is several times as fast as a remainder."""
    if bound & (bound - 1) == 0:
        rest: NDArray[Any] = words & words.dtype.type(bound - 1)
        return rest.astype(np.int64)
    rest = words // words.dtype.type(bound)
    rest *= words.dtype.type(bound)
    np.subtract(words, rest, out=rest)
    return rest.astype(np.int64)


def coins(size: int, odds: Fraction, randomness: Randomness) -> Bits:
    """8 · ``size`` independent coins, each heads (1) with probability exactly ``odds``, packed.

    A coin compares a random binary fraction with the binary expansion of the odds, digit by digit
    from the top; the first difference decides. The first 8 digits are compared for 8 coins a byte
    at once. A coin that still ties there (1 in 256) is heads with the exact probability that the
    remaining digits leave, a ratio of integers, drawn by :func:`uniform_below`.

    Args:
        size: bytes of coins.
        odds: in [0, 1], with a denominator of at most 2^63.
        randomness: where the random digits come from.

    Returns:
        Shape (size,), uint8. Cost: about 8.3 random bytes per byte of coins.
    """
    if not 0 <= odds <= 1:
        raise ValueError(f"odds must lie in [0, 1], got {odds}")
    if odds in (0, 1):
        return np.full(size, 0xFF * int(odds), np.uint8)
    head, rest = divmod(odds.numerator << PLANES, odds.denominator)
    out = np.empty(size, np.uint8)
    for start in range(0, size, COIN_BLOCK):
        block = out[start : start + COIN_BLOCK]
        tie = _compare(block, head, randomness)
        _settle(block, tie, rest, odds.denominator, randomness)
    return out


def _compare(out: Bits, head: int, randomness: Randomness) -> Bits:
    """Write the coins that the first digits decide, the others as tails; return the others."""
    planes = np.frombuffer(randomness.bytes(PLANES * len(out)), np.uint8).reshape(PLANES, -1)
    # From the last digit to the first, once as if all later digits lost (``out``) and once as if
    # they won: a digit 1 of the odds wins against one of the random digit's two values and
    # otherwise leaves the verdict to the later digits, a digit 0 likewise loses. Which of the two
    # values does so is immaterial, so one operation serves.
    out[:] = 0
    won = np.full(len(out), 0xFF, np.uint8)
    for j in range(PLANES):
        operation = np.bitwise_or if head >> j & 1 else np.bitwise_and
        operation(out, planes[j], out=out)
        operation(won, planes[j], out=won)
    won ^= out
    return won


def _settle(out: Bits, tie: Bits, heads: int, of: int, randomness: Randomness) -> None:
    """Set the tied coins of ``out``, all tails so far, to heads with odds ``heads / of``."""
    places = np.flatnonzero(tie != 0)
    undecided = np.unpackbits(tie[places])
    tied = np.flatnonzero(undecided != 0)
    undecided[tied] = uniform_below(of, len(tied), randomness) < heads
    out[places] |= np.packbits(undecided)
