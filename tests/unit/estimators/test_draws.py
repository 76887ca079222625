"""Check that random decisions have exact probabilities, against digits read one at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction
from itertools import accumulate
from typing import Any

import numpy as np
import pytest

from calmstream.estimators import draws
from calmstream.estimators.draws import coins, respond
from calmstream.estimators.mechanisms.subset import SubsetSelection
from calmstream.estimators.randomness import SeededRandomness, SystemRandomness, exp_weight
from tests.support import perturbing
from tests.support.perturbing import Stream, coin_bytes

OTHER = 1 << 32
TINY = Fraction(1, 1 << 90)
ODDS = [
    Fraction(1, 2),
    Fraction(1, 3),
    Fraction(255, 256),
    Fraction(1, 257),
    Fraction(1, 2**40),
    Fraction(2**32, 2**32 + exp_weight("1")),
    Fraction(exp_weight("8"), 2**32 + exp_weight("8")),
]


def assert_alike(
    data: bytes, ours: Callable[[Stream], Any], theirs: Callable[[Stream], Any]
) -> int:
    """Compare decisions on the same bytes, of which both must read equally many; return these."""
    one, other = Stream(data), Stream(data)
    assert ours(one) == theirs(other)
    assert one.read == other.read
    return one.read


def assert_coins(data: bytes, size: int, probability: Fraction) -> int:
    one, zero = probability.numerator, probability.denominator - probability.numerator
    return assert_alike(
        data,
        lambda stream: coins(size, probability, stream).tolist(),
        lambda stream: coin_bytes(size, one, zero, stream),
    )


def near(points: Iterable[Fraction], width: int) -> Iterable[bytes]:
    """Yield the digits of numbers in [0, 1) just below and just above each point."""
    for point in points:
        for number in (point - TINY, point + TINY):
            if 0 <= number < 1:
                whole = int(number * (1 << 640))
                digits = [whole >> 640 - width * (i + 1) & ((1 << width) - 1) for i in range(12)]
                yield b"".join(digit.to_bytes(width // 8, "little") for digit in digits)


@pytest.mark.parametrize("probability", ODDS)
def test_coins_are_exact_for_every_first_digit_and_near_every_boundary(
    probability: Fraction,
) -> None:
    further = np.random.default_rng(1).bytes(1 << 12)
    assert_coins(np.arange(1 << 16, dtype="<u2").tobytes() + further, 1 << 16, probability)
    chances = (
        probability ** v.bit_count() * (1 - probability) ** (8 - v.bit_count()) for v in range(256)
    )
    for data in near(accumulate(chances), 16):
        assert_coins(data, 1, probability)


def test_certain_coins_need_no_randomness() -> None:
    assert coins(3, Fraction(0), Stream(b"")).tolist() == [0, 0, 0]
    assert coins(3, Fraction(1), Stream(b"")).tolist() == [255, 255, 255]
    assert coins(0, Fraction(1, 3), SystemRandomness()).shape == (0,)


@pytest.mark.parametrize("epsilon", ["0.001", "1", "16"])
@pytest.mark.parametrize("cells", [2, 3, 64, 1 << 24])
def test_responses_near_every_boundary_are_exact(epsilon: str, cells: int) -> None:
    weight, value = exp_weight(epsilon), cells // 2
    chosen = range(cells) if cells <= 64 else [0, 1, 2, 12_345, cells - 2, cells - 1]
    total = weight + (cells - 1) * OTHER
    # One point is inside the interval of the true value, where nothing is left to decide.
    for data in near((Fraction(weight + i * OTHER, total) for i in (-1, *chosen)), 32):
        assert_alike(
            data,
            lambda stream: respond(np.array([value]), cells, weight, stream)[0],
            lambda stream: perturbing.respond(value, cells, weight, stream),
        )


def test_responses_of_many_values_equal_those_of_single_values() -> None:
    data = np.random.default_rng(1).bytes(4000)
    values, weight = np.arange(1000) % 7, exp_weight("1")
    single = Stream(data)
    alone = [perturbing.respond(int(value), 7, weight, single) for value in values]
    assert respond(values, 7, weight, Stream(data)).tolist() == alone


def test_weights_beyond_the_range_are_refused() -> None:
    with pytest.raises(ValueError, match="not below"):
        respond(np.array([0]), 1 << 31, exp_weight("16"), SystemRandomness())


@pytest.mark.parametrize(
    "probability", [Fraction(1, 3), ODDS[5], Fraction(1, 4096), Fraction(7, 8)]
)
def test_coins_read_their_digits_in_order(probability: Fraction) -> None:
    dice = np.random.default_rng(3)
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
            near_ends = [int(number) & 0xFFFF for number in split if int(number) >> 16 == word]
            if near_ends and dice.random() < 0.15:
                further[k] = dice.choice(near_ends)
        read = assert_coins(words.tobytes() + further.tobytes(), 20, probability)
        thirds += read > 2 * (20 + len(left))
    assert thirds or not split.size


@pytest.mark.parametrize("cells", [2, 3, 7, 8, 9, 31, 33, 63, 64])
def test_sets_as_words_are_the_sets_as_rows(cells: int) -> None:
    values = np.arange(1000) % cells
    for size in {1, cells // 2, cells - 1}:
        mechanism = SubsetSelection("1", cells, size)
        rows = mechanism._draw(values, SeededRandomness(cells))
        words = mechanism._draw_words(values, SeededRandomness(cells))
        assert (rows.shape, rows.tolist()) == (words.shape, words.tolist())
