from fractions import Fraction
from itertools import pairwise
from math import factorial
from typing import Any

import numpy as np
import pytest
from scipy.stats import chi2

from calmstream.common.errors import PlanError
from calmstream.estimators.randomness import (
    MAX_DIVISOR,
    SeededRandomness,
    exp_weight,
    parse_epsilon,
    uniform_below,
)
from tests.support.mechanisms import below_exp
from tests.support.perturbing import Stream

ALPHA = 1e-6


def words(dtype: Any, *values: int) -> bytes:
    return np.array(values, dtype).tobytes()


def exp_bounds(x: Fraction, terms: int = 160) -> tuple[Fraction, Fraction]:
    """Return rationals just below and just above exp(x), from its series; x in [0, 16]."""
    below = below_exp(x, terms)
    # The rest is below its first term times a geometric series of ratio 16 / terms < 1/2.
    return below, below + 2 * x**terms / factorial(terms)


@pytest.mark.parametrize("divisor", [1, 2, 7, MAX_DIVISOR])
@pytest.mark.parametrize(
    "epsilon", ["0.001", "0.01", "0.1", "0.2", "1", "1.0986122886681098", "2.5", "8", "16"]
)
def test_weight_is_exactly_the_floor_of_the_exponential(epsilon: str, divisor: int) -> None:
    below, above = exp_bounds(Fraction(epsilon) / divisor)
    weight = exp_weight(epsilon, divisor)
    assert Fraction(weight, 1 << 32) <= below
    assert Fraction(weight + 1, 1 << 32) > above
    assert weight > 1 << 32


@pytest.mark.parametrize(
    "text",
    [
        "", "0", "-1", "0.0001", "129", "1e999999", "1e0", "nan", "inf", " 1", "1\n", "+1", "1_0",
        "٣", ".5", "1.", "01", "0x1", 1, 1.0, None, True, ["1"], b"1",
    ],
)  # fmt: skip
def test_epsilon_is_a_plain_decimal_string_in_range(text: object) -> None:
    with pytest.raises(PlanError, match="epsilon must"):
        parse_epsilon(text)


@pytest.mark.parametrize(
    ("bound", "dtype"), [(3, "<u4"), (40_000, "<u4"), (65_537, "<u8"), (2**62 + 1, "<u8")]
)
def test_words_beyond_the_last_multiple_are_thrown_away(bound: int, dtype: str) -> None:
    wide = 1 << 8 * np.dtype(dtype).itemsize
    limit = wide - wide % bound
    source = Stream(words(dtype, limit - 1, limit, 5, wide - 1, limit, 6, 7))
    drawn = uniform_below(bound, 4, source)
    assert drawn.tolist() == [(limit - 1) % bound, 5 % bound, 6 % bound, 7 % bound]
    assert source.read == len(source.data)


@pytest.mark.parametrize(
    ("bound", "dtype"),
    [(1, "u1"), (2, "u1"), (256, "u1"), (512, "<u2"), (65_536, "<u2"), (2**32, "<u4"),
     (2**33, "<u8"), (2**63, "<u8")],
)  # fmt: skip
def test_powers_of_two_take_the_shortest_word_and_throw_none_away(bound: int, dtype: str) -> None:
    top = (1 << 8 * np.dtype(dtype).itemsize) - 1
    drawn = uniform_below(bound, 3, source := Stream(words(dtype, top, bound - 1, 0)))
    assert drawn.tolist() == [bound - 1, bound - 1, 0]
    assert source.read == len(source.data)
    assert drawn.dtype == np.int64


@pytest.mark.parametrize("bound", [3, 6, 255, 257, 60_000, 65_537, 3 * 2**40 + 1, 2**63 - 1])
def test_draws_are_uniform(bound: int) -> None:
    n = 100_000
    drawn = uniform_below(bound, n, SeededRandomness(bound % 1000))
    assert drawn.min() >= 0
    assert drawn.max() < bound
    bins = min(bound, 60)
    edges = [-(-bound * i // bins) for i in range(bins + 1)]
    expected = np.array([n * (b - a) / bound for a, b in pairwise(edges)])
    observed = np.diff(np.searchsorted(np.sort(drawn), np.array(edges, np.uint64)))
    assert chi2.sf((np.square(observed - expected) / expected).sum(), bins - 1) > ALPHA
