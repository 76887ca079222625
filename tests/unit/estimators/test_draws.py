"""Check that random decisions have exact probabilities, against intervals of rational numbers."""

from __future__ import annotations

from fractions import Fraction
from itertools import accumulate, pairwise

import numpy as np
import pytest

from calmstream.estimators import draws
from calmstream.estimators.draws import coins, respond
from calmstream.estimators.mechanisms.subset import SubsetSelection
from calmstream.estimators.randomness import (
    SeededRandomness,
    SystemRandomness,
    exp_weight,
)
from tests.support.perturbing import Stream, coin_bytes

OTHER = 1 << 32


def outcome(ends: list[Fraction], digits: list[int], width: int) -> int | None:
    """Return the outcome whose interval contains all numbers with these first digits, if any."""
    low = sum((Fraction(d, 1 << width * (i + 1)) for i, d in enumerate(digits)), Fraction(0))
    high = low + Fraction(1, 1 << width * len(digits))
    for number, (start, end) in enumerate(pairwise([Fraction(0), *ends])):
        if start <= low and high <= end:
            return number
    return None


def digits_of(point: Fraction, width: int, count: int) -> list[int]:
    """Return the first digits of a number in [0, 1)."""
    whole = int(point * (1 << width * count))
    return [whole >> width * (count - 1 - i) & ((1 << width) - 1) for i in range(count)]


def spelled(digits: list[int], width: int) -> bytes:
    return b"".join(d.to_bytes(width // 8, "little") for d in digits)


def needed(ends: list[Fraction], digits: list[int], width: int) -> int:
    """Return how many of the digits decide the outcome."""
    return next(
        n for n in range(1, len(digits) + 1) if outcome(ends, digits[:n], width) is not None
    )


ODDS = [
    Fraction(1, 2),
    Fraction(1, 3),
    Fraction(255, 256),
    Fraction(1, 257),
    Fraction(1, 2**40),
    Fraction(2**32, 2**32 + exp_weight("1")),
    Fraction(exp_weight("8"), 2**32 + exp_weight("8")),
]


def byte_ends(probability: Fraction) -> list[Fraction]:
    return list(
        accumulate(
            probability ** v.bit_count() * (1 - probability) ** (8 - v.bit_count())
            for v in range(256)
        )
    )


@pytest.mark.parametrize("probability", ODDS)
def test_every_first_digit_gives_its_byte_of_coins(probability: Fraction) -> None:
    ends = byte_ends(probability)
    split = {int(end * (1 << 16)) for end in ends if end * (1 << 16) % 1}
    decided = [d for d in range(1 << 16) if d not in split]
    drawn = coins(len(decided), probability, Stream(np.array(decided, "<u2").tobytes()))
    whole = np.array([float(end) for end in ends])
    likely = np.searchsorted(whole, (np.array(decided) + 0.5) / (1 << 16), side="right")
    assert drawn.tolist() == likely.tolist()
    for d in decided[:: max(1, len(decided) // 50)]:
        assert outcome(ends, [d], 16) is not None
    for d in split:
        assert outcome(ends, [d], 16) is None


@pytest.mark.parametrize(
    "probability", [*ODDS[:2], *(pytest.param(p, marks=pytest.mark.slow) for p in ODDS[2:])]
)
def test_coins_near_every_boundary_read_until_one_value_is_left(probability: Fraction) -> None:
    ends = byte_ends(probability)
    for end in ends[:-1]:
        for point in (end - Fraction(1, 1 << 45), end + Fraction(1, 1 << 45)):
            digits = digits_of(min(max(point, Fraction(0)), 1 - Fraction(1, 1 << 64)), 16, 40)
            n = needed(ends, digits, 16)
            source = Stream(spelled(digits[:n], 16))
            assert coins(1, probability, source)[0] == outcome(ends, digits[:n], 16)
            assert source.read == len(source.data)


def test_certain_coins_need_no_randomness() -> None:
    assert coins(3, Fraction(0), Stream(b"")).tolist() == [0, 0, 0]
    assert coins(3, Fraction(1), Stream(b"")).tolist() == [255, 255, 255]
    assert coins(0, Fraction(1, 3), SystemRandomness()).shape == (0,)


def response_ends(cells: int, weight: int) -> list[Fraction]:
    total = weight + (cells - 1) * OTHER
    return [Fraction(weight + i * OTHER, total) for i in range(cells)]


@pytest.mark.parametrize("epsilon", ["0.001", "1", "16"])
@pytest.mark.parametrize("cells", [2, 3, 64, 1 << 24])
def test_responses_near_every_boundary_are_exact(epsilon: str, cells: int) -> None:
    weight = exp_weight(epsilon)
    total = weight + (cells - 1) * OTHER
    chosen = range(cells) if cells <= 64 else [0, 1, 2, 12_345, cells - 2, cells - 1]
    value = cells // 2
    tiny = Fraction(1, 1 << 90)
    for i in chosen:
        end = Fraction(weight + i * OTHER, total)
        for point, expected in ((end - tiny, i), (end + tiny, i + 1)):
            if point >= 1:
                continue
            digits = digits_of(point, 32, 12)
            low = [max(end - Fraction(OTHER, total), Fraction(0)), end]
            ends = [*low, min(end + Fraction(OTHER, total), Fraction(1)), Fraction(1)]
            if i == 0:
                ends = ends[1:]
            n = needed(sorted(set(ends)), digits, 32)
            source = Stream(spelled(digits[:n], 32))
            other = expected - 1
            cell = value if expected == 0 else other + (other >= value)
            drawn = respond(np.array([value]), cells, weight, source)
            assert drawn.tolist() == [cell]
            assert source.read == len(source.data)


def test_responses_of_many_values_equal_those_of_single_values() -> None:
    weight = exp_weight("1")
    digits = np.random.default_rng(1).integers(0, 1 << 32, 1000, dtype=np.uint32)
    values = np.arange(1000) % 7
    together = respond(values, 7, weight, Stream(digits.tobytes()))
    ends = response_ends(7, weight)
    for i in range(0, 1000, 37):
        number = outcome(ends, [int(digits[i])], 32)
        assert number is not None
        expected = int(values[i]) if number == 0 else number - 1 + (number - 1 >= values[i])
        assert together[i] == expected


def test_weights_beyond_the_range_are_refused() -> None:
    with pytest.raises(ValueError, match="not below"):
        respond(np.array([0]), 1 << 31, exp_weight("16"), SystemRandomness())


@pytest.mark.parametrize(
    "probability",
    [
        Fraction(1, 3),
        Fraction(1 << 32, (1 << 32) + 11674931554),
        Fraction(1, 4096),
        Fraction(7, 8),
        Fraction(1, 2),
    ],
)
def test_coins_read_their_digits_in_order(probability: Fraction) -> None:
    dice = np.random.default_rng(3)
    one, zero = probability.numerator, probability.denominator - probability.numerator
    undecided = np.flatnonzero(draws._coin_table(probability) == -1)
    _, split = draws._unit_ends(probability, 32)
    thirds = 0
    for _ in range(12):
        words = dice.integers(0, 1 << 16, 20).astype("<u2")
        if undecided.size:
            some = dice.random(20) < 0.5
            words[some] = dice.choice(undecided, some.sum())
        further = dice.integers(0, 1 << 16, 200).astype("<u2")
        # Second digits after which a third one is needed are common.
        left = [int(word) for word in words if word in undecided]
        for k, word in enumerate(left):
            near = [int(number) & 0xFFFF for number in split if int(number) >> 16 == word]
            if near and dice.random() < 0.15:
                further[k] = dice.choice(near)
        data = words.tobytes() + further.tobytes()
        fast, plain = Stream(data), Stream(data)
        assert draws.coins(20, probability, fast).tolist() == coin_bytes(20, one, zero, plain)
        assert fast.read == plain.read
        thirds += fast.read > 2 * (20 + len(left))
    assert thirds or not split.size


@pytest.mark.parametrize("cells", [2, 3, 7, 8, 9, 31, 33, 63, 64])
def test_sets_as_words_are_the_sets_as_rows(cells: int) -> None:
    values = np.arange(1000) % cells
    for size in {1, cells // 2, cells - 1}:
        mechanism = SubsetSelection("1", cells, size)
        rows = mechanism._draw(values, SeededRandomness(cells))
        words = mechanism._draw_words(values, SeededRandomness(cells))
        assert (rows.shape, rows.tolist()) == (words.shape, words.tolist())
