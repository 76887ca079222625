"""Tests of how the tallies of Bloom filters are counted and drawn."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise, product
from math import prod

import numpy as np
import pytest
from numpy.typing import NDArray

from calmstream.estimators.papers.lopub.bloom_counts import add_products
from calmstream.estimators.papers.lopub.bloom_draws import BLOCK, OnesTable, blocks, ones_table
from calmstream.estimators.papers.lopub.bloom_rr import BloomRR
from calmstream.estimators.randomness import SeededRandomness

SIGMAS = 5.5
"""Standard errors between a sample and its expectation: 4e-8 for one comparison."""

FILTERS = np.array([[1, 1, 1, 0, 0, 0, 0], [0, 0, 1, 1, 1, 0, 0]], np.uint8)
"""Two values with a common bit; two bits belong to no value."""


def reference(ones: list[NDArray[np.float32]], table: tuple[int, ...]) -> NDArray[np.int64]:
    total: NDArray[np.float64] = np.ones((1, ones[0].shape[1]))
    for axis in table:
        total = (total[:, None] * ones[axis].astype(float)).reshape(-1, total.shape[1])
    return total.sum(axis=1).astype(np.int64)


@pytest.mark.parametrize(
    "tables",
    [
        ((0,), (1,), (2,)),
        ((0, 1), (0, 2), (1, 2)),
        ((1, 2), (0,), (0, 1, 2), (0, 2)),
        ((0, 3), (1, 3)),
        ((0, 1, 2, 3),),
        ((2,), (0, 1)),
    ],
)
def test_counters_are_the_sums_of_products(tables: tuple[tuple[int, ...], ...]) -> None:
    generator = np.random.default_rng(1)
    n = 70_001  # more than one block
    ones = [generator.integers(0, 17, (rows + 1, n)).astype(np.float32) for rows in (2, 3, 2, 9)]
    for axis in ones:
        axis[0] = 1
    expected = np.concatenate([reference(ones, table) for table in tables])
    assert np.array_equal(add_products(ones, tables), expected)


def test_counters_without_reports_are_zero() -> None:
    ones = [np.ones((3, 0), np.float32)] * 2
    assert np.array_equal(add_products(ones, ((0,), (0, 1))), np.zeros(12, np.int64))


def exact_ones(flipped: Fraction, value: int) -> dict[tuple[int, ...], Fraction]:
    """Return the distribution of the ones of a flipped filter, from all patterns of its bits."""
    found: dict[tuple[int, ...], Fraction] = {}
    for flips in product((0, 1), repeat=FILTERS.shape[1]):
        bits = FILTERS[value] ^ np.array(flips, np.uint8)
        key = tuple(int((bits * row).sum()) for row in FILTERS)
        chance = prod(flipped if flip else 1 - flipped for flip in flips)
        found[key] = found.get(key, Fraction(0)) + chance
    return found


def probabilities(table: OnesTable, value: int) -> dict[tuple[int, ...], float]:
    """Return the probability of all ones that a table draws, from its intervals."""
    found: dict[tuple[int, ...], float] = {}
    ends = table.ends[value]
    for bin_, state in enumerate(table.state[value].tolist()):
        low, high = bin_ / len(table.state[value]), (bin_ + 1) / len(table.state[value])
        if state < len(ends):
            parts = {state: high - low}
        else:
            inside = [e for e in ends if low < e < high]
            edges = [low, *inside, high]
            first = int(np.searchsorted(ends, low, "right"))
            parts = {first + k: b - a for k, (a, b) in enumerate(pairwise(edges))}
        for k, share in parts.items():
            key = tuple(int(x) for x in table.ones[1:, k])
            found[key] = found.get(key, 0.0) + share
    return found


@pytest.mark.parametrize("flipped", [Fraction(1, 2), Fraction(9, 20), Fraction(1, 50)])
@pytest.mark.parametrize("value", [0, 1])
def test_a_table_has_the_exact_distribution(flipped: Fraction, value: int) -> None:
    table = ones_table(FILTERS, flipped)
    assert table is not None
    assert np.array_equal(table.ones[0], np.ones(table.ones.shape[1]))
    expected = {key: float(p) for key, p in exact_ones(flipped, value).items()}
    assert probabilities(table, value) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("flipped", [Fraction(9, 20), Fraction(1, 50)])
def test_drawn_ones_have_this_distribution(flipped: Fraction) -> None:
    table = ones_table(FILTERS, flipped)
    assert table is not None
    n = 100_000
    code = np.tile([0, 1], n)
    drawn = table.draw(code, np.random.default_rng(2)).astype(int)
    for value in (0, 1):
        rows, times = np.unique(drawn[1:, code == value], axis=1, return_counts=True)
        observed = dict(zip(map(tuple, rows.T.tolist()), times.tolist(), strict=True))
        expected = exact_ones(flipped, value)
        assert set(observed) <= set(expected)
        for key, chance in expected.items():
            mean = n * float(chance)
            assert abs(observed.get(key, 0) - mean) < SIGMAS * np.sqrt(mean) + 3


def test_states_that_share_an_interval_are_both_drawn() -> None:
    table = ones_table(FILTERS, Fraction(1, 50))
    assert table is not None
    shared = (table.state == table.ends.shape[1]).mean(axis=1)
    assert np.all(shared > 0)
    assert np.all(shared <= table.ends.shape[1] / table.state.shape[1])


def test_an_axis_with_many_states_has_no_table() -> None:
    mechanism = BloomRR("1", 60, (30, 2), 64, 5, ((0, 1),))
    first, second = (ones_table(filters, mechanism.q) for filters in mechanism.filters)
    assert first is None
    assert second is not None


@pytest.mark.parametrize("axes", [(2, 2, 3), pytest.param((12, 2, 3), marks=pytest.mark.slow)])
def test_drawn_tallies_have_the_moments_of_tallies_of_reports(axes: tuple[int, ...]) -> None:
    mechanism = BloomRR("4", prod(axes), axes, 24, 3, ((0, 1), (1, 2), (0,)))
    histogram = np.arange(prod(axes)) % 5
    times = 1000
    generator = np.random.default_rng(3)
    drawn = np.array([mechanism.draw_tally(histogram, generator) for _ in range(times)])
    values = np.repeat(np.arange(prod(axes)), histogram)
    randomness = SeededRandomness(4)
    counted = np.array(
        [mechanism.tally(mechanism.perturb(values, randomness), None, 1)[0] for _ in range(times)]
    )
    # Both agree with each other in mean and covariance, and with the exact mean.
    spread = np.sqrt(counted.var(axis=0) + drawn.var(axis=0))
    assert np.all(np.abs(drawn.mean(0) - counted.mean(0)) <= SIGMAS * spread / np.sqrt(times))
    one, two = np.cov(drawn.T), np.cov(counted.T)
    each = np.outer(np.diag(two), np.diag(two)) + two**2
    assert np.all(np.abs(one - two) <= SIGMAS * np.sqrt(2 * each / times))
    mean = exact_mean(mechanism, histogram)
    own = np.sqrt(drawn.var(axis=0) / times)
    assert np.all(np.abs(drawn.mean(0) - mean) <= SIGMAS * own + 1e-9)


def exact_mean(mechanism: BloomRR, histogram: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the expected counters: given a record, the ones of its axes are independent."""
    q = float(mechanism.q)
    cube = histogram.reshape(mechanism.axes).astype(float)
    expected = []
    for table in mechanism.tables:
        others = tuple(i for i in range(len(mechanism.axes)) if i not in table)
        part = cube.sum(axis=others)
        for place, i in enumerate(table):
            gram = mechanism.grams[i]
            ones = q * np.diag(gram)[:, None] + (1 - 2 * q) * gram
            ones = np.concatenate([np.ones((1, len(gram))), ones])
            part = np.moveaxis(np.tensordot(ones, part, axes=(1, place)), 0, place)
        expected.append(part.reshape(-1))
    return np.concatenate(expected)


def test_blocks_hold_every_device_once() -> None:
    histogram = np.array([0, BLOCK + 5, 0, 7, 2 * BLOCK, 1, 0])
    total = np.zeros_like(histogram)
    sizes = []
    for values, times in blocks(histogram):
        total[values] += times
        sizes.append(int(times.sum()))
    assert np.array_equal(total, histogram)
    assert sizes == [BLOCK, BLOCK, BLOCK, 13]
    assert list(blocks(np.zeros(3, np.int64))) == []
