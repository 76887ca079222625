"""Check that draws made in array operations read the digits that the plain rules read."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from calmstream.estimators import draws
from calmstream.estimators.mechanisms.subset import SubsetSelection
from calmstream.estimators.randomness import SeededRandomness


class Given:
    """A source of given bytes that counts those that were read."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def bytes(self, count: int) -> bytes:
        found = self.data[self.at : self.at + count]
        assert len(found) == count
        self.at += count
        return found


def one_by_one(size: int, probability: Fraction, source: Given) -> list[int]:
    """Return bytes of coins: first one digit of each, then the further digits, byte after byte."""
    words = np.frombuffer(source.bytes(2 * size), "<u2").tolist()
    one, zero = probability.numerator, probability.denominator - probability.numerator
    weights = [one ** v.bit_count() * zero ** (8 - v.bit_count()) for v in range(256)]
    total = sum(weights)
    ends = np.cumsum(np.array(weights, object)).tolist()

    def value(number: int, bits: int) -> int | None:
        """Return the value whose interval holds [number, number + 1) / 2^bits; None for several."""
        first = sum(end << bits <= number * total for end in ends)
        last = sum(end << bits < (number + 1) * total for end in ends)
        return first if first == last else None

    found = [value(word, 16) for word in words]
    for i, word in enumerate(words):
        number, bits = word, 16
        while found[i] is None:
            number = number << 16 | int.from_bytes(source.bytes(2), "little")
            bits += 16
            found[i] = value(number, bits)
    return [each for each in found if each is not None]


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
        fast, plain = Given(data), Given(data)
        assert draws.coins(20, probability, fast).tolist() == one_by_one(20, probability, plain)
        assert fast.at == plain.at
        thirds += fast.at > 2 * (20 + len(left))
    assert thirds or not split.size


@pytest.mark.parametrize("cells", [2, 3, 7, 8, 9, 31, 33, 63, 64])
def test_sets_as_words_are_the_sets_as_rows(cells: int) -> None:
    values = np.arange(1000) % cells
    for size in {1, cells // 2, cells - 1}:
        mechanism = SubsetSelection("1", cells, size)
        rows = mechanism._draw(values, SeededRandomness(cells))
        words = mechanism._draw_words(values, SeededRandomness(cells))
        assert (rows.shape, rows.tolist()) == (words.shape, words.tolist())
