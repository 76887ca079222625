"""Tests of how the tallies of Bloom filters are counted and drawn."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest
from numpy.typing import NDArray

from calmstream.estimators.papers.lopub.bloom_counts import add_products
from calmstream.estimators.papers.lopub.bloom_rr import BloomRR

SIGMAS = 5.5
"""Standard errors between a sample and its expectation: 4e-8 for one comparison."""


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


@pytest.mark.parametrize("axes", [(2, 2, 3), pytest.param((12, 2, 3), marks=pytest.mark.slow)])
def test_tallies_have_the_expected_counters(axes: tuple[int, ...]) -> None:
    mechanism = BloomRR("4", prod(axes), axes, 24, 3, ((0, 1), (1, 2), (0,)))
    histogram = np.arange(prod(axes)) % 5
    times = 1000
    generator = np.random.default_rng(3)
    drawn = np.array([mechanism.draw_tally(histogram, generator) for _ in range(times)])
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
