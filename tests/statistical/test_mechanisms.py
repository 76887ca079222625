from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from calmstream.estimators.mechanisms.base import Mechanism
from calmstream.estimators.mechanisms.hashing import buckets
from calmstream.estimators.mechanisms.registry import build, standard
from calmstream.estimators.mechanisms.support import SupportOracle, table_error
from calmstream.estimators.randomness import Randomness, SeededRandomness
from tests.support.mechanisms import (
    EXAMPLES,
    codes,
    example,
    matrix,
    output_tallies,
    p_value,
    possible_codes,
)

ALPHA = 1e-6
SIGMAS = 5
listed_law = [k for k, s in EXAMPLES.items() if s["name"] != "olh"]
"""The drawn distribution of local hashing is that of an ideal hash, which has no finite channel."""
LONG = {"subset-selection-9-4", "subset-selection-6-2", "bloom-rr-4"}
drawn_law = [pytest.param(k, marks=pytest.mark.slow) if k in LONG else k for k in listed_law]


def outcomes(mechanism: Mechanism, x: int, n: int, randomness: Randomness) -> NDArray[Any]:
    code = codes(mechanism, mechanism.perturb(np.full(n, x), randomness))
    place = np.searchsorted(np.array(possible_codes(mechanism)), code)
    return np.bincount(place, minlength=len(possible_codes(mechanism)))


@pytest.mark.parametrize("key", EXAMPLES)
@pytest.mark.parametrize(
    "epsilon", [*(pytest.param(e, marks=pytest.mark.slow) for e in ("0.2", "2.5")), "1"]
)
def test_perturb_has_the_listed_channel(key: str, epsilon: str) -> None:
    mechanism = example(key, epsilon)
    n = 60_000
    source = SeededRandomness(17)
    for x, row in enumerate(matrix(mechanism)):
        assert p_value(outcomes(mechanism, x, n, source), n * row) > ALPHA, x


def exact_moments(
    mechanism: Mechanism, histogram: NDArray[Any]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    tallies = output_tallies(mechanism).astype(float)
    mean = np.zeros(mechanism.width)
    covariance = np.zeros((mechanism.width, mechanism.width))
    for weight, row in zip(histogram, matrix(mechanism), strict=True):
        one = row @ tallies
        mean += weight * one
        covariance += weight * ((tallies.T * row) @ tallies - np.outer(one, one))
    return mean, covariance


def assert_moments(
    drawn: NDArray[Any], mean: NDArray[np.float64], covariance: NDArray[np.float64]
) -> None:
    times = len(drawn)
    spread = np.maximum(np.diag(covariance), 0.0)
    slack = 1e-9 * (1 + spread.max())
    assert np.all(np.abs(drawn.mean(axis=0) - mean) < SIGMAS * np.sqrt(spread / times) + slack)
    error = np.sqrt((np.outer(spread, spread) + covariance**2) / times)
    assert np.all(np.abs(np.cov(drawn.T, ddof=1) - covariance) < SIGMAS * error + slack)


@pytest.mark.parametrize("key", drawn_law)
def test_drawn_tallies_have_the_distribution_of_perturbed_ones(key: str) -> None:
    mechanism = example(key, "1")
    cells, times = mechanism.cells, 2000
    histogram = 40 + 30 * np.arange(cells)
    mean, covariance = exact_moments(mechanism, histogram)
    generator = np.random.default_rng(31)
    drawn = np.array([mechanism.draw_tally(histogram, generator) for _ in range(times)])
    assert_moments(drawn.reshape(times, -1), mean, np.atleast_2d(covariance))

    values = np.tile(np.repeat(np.arange(cells), histogram), times // 10)
    view = np.repeat(np.arange(times // 10), histogram.sum())
    reports = mechanism.perturb(values, SeededRandomness(37))
    counted = mechanism.tally(reports, view, times // 10)
    assert_moments(counted, mean, np.atleast_2d(covariance))


def test_drawn_tallies_of_local_hashing_have_the_distribution_of_perturbed_ones() -> None:
    mechanism = standard("olh", "1", 6)
    assert isinstance(mechanism, SupportOracle)
    histogram = np.array([900, 500, 300, 200, 100, 0])
    p, q = float(mechanism.p), float(mechanism.q)
    mean = histogram * p + (2000 - histogram) * q
    covariance = np.diag(histogram * p * (1 - p) + (2000 - histogram) * q * (1 - q))
    generator = np.random.default_rng(41)
    drawn = np.array([mechanism.draw_tally(histogram, generator) for _ in range(3000)])
    assert_moments(drawn, mean, covariance)
    values = np.tile(np.repeat(np.arange(6), histogram), 400)
    reports = mechanism.perturb(values, SeededRandomness(43))
    counted = mechanism.tally(reports, np.repeat(np.arange(400), 2000), 400)
    assert_moments(counted, mean, covariance)


# n times the summed squared error of a table, as the literature's formulas give it.
TABLE = [
    ("grr", "0.2", 4, 271.9),
    ("oue", "0.2", 4, 399.7),
    ("subset-selection", "0.2", 4, 225.8),
    ("grr", "0.2", 8, 1205.6),
    ("oue", "0.2", 8, 798.3),
    ("subset-selection", "0.2", 8, 615.7),
    ("grr", "0.2", 16, 5032),
    ("oue", "0.2", 16, 1596),
    ("subset-selection", "0.2", 16, 1402),
    ("grr", "1", 4, 7.6),
    ("oue", "1", 4, 15.7),
    ("subset-selection", "1", 4, 7.6),
    ("grr", "1", 8, 27.1),
    ("oue", "1", 8, 30.5),
    ("subset-selection", "1", 8, 21.7),
]
OTHERS = [
    (name, epsilon, cells, None)
    for name in ("sue", "olh", "hadamard-response")
    for epsilon, cells in (("0.2", 8), ("1", 4), ("1", 13))
] + [("hadamard-coefficient", "0.2", 2, None), ("subset-selection", "2.5", 40, None)]


@pytest.mark.parametrize(("name", "epsilon", "cells", "published"), TABLE + OTHERS)
def test_table_errors_are_as_predicted(
    name: str, epsilon: str, cells: int, published: float | None
) -> None:
    oracle = standard(name, epsilon, cells)
    assert isinstance(oracle, SupportOracle)
    predicted = float(table_error(oracle))
    if published is not None:
        half_digit = 0.5 if isinstance(published, int) else 0.05
        assert abs(predicted - published) <= half_digit
    n, times = 1000, 200
    histogram = skewed(n, cells)
    values = np.tile(np.repeat(np.arange(cells), histogram), times)
    reports = oracle.perturb(values, SeededRandomness(53))
    counts = oracle.tally(reports, np.repeat(np.arange(times), n), times)
    errors = np.array([oracle.estimate(c, n) for c in counts]) - histogram / n
    sse = n * (errors**2).sum(axis=1)
    assert abs(sse.mean() - predicted) < SIGMAS * sse.std(ddof=1) / np.sqrt(times)
    assert np.isclose(n * oracle.variance(n, histogram / n).sum(), predicted)
    spread = errors.std(axis=0, ddof=1) / np.sqrt(times)
    assert np.all(np.abs(errors.mean(axis=0)) < SIGMAS * spread)


def skewed(n: int, cells: int) -> NDArray[np.int64]:
    """Return true counts that fall off harmonically and sum to n; the last cell is empty."""
    shares = 1 / np.arange(1, cells + 1)
    shares[-1] = 0
    counts = np.floor(n * shares / shares.sum()).astype(np.int64)
    counts[0] += n - counts.sum()
    return counts


# The last case is nearly free of noise: what remains is the collisions.
@pytest.mark.parametrize(("epsilon", "n"), [("0.2", 4000), ("1", 4000), ("8", 1_000_000)])
def test_the_sketch_errs_as_predicted_over_its_hashes(epsilon: str, n: int) -> None:
    cells, times = 12, 300
    histogram = skewed(n, cells)
    generator = np.random.default_rng(59)
    spec = {"name": "hadamard-sketch", "cells": cells, "hashes": 3, "buckets": 16}
    errors = np.empty((times, cells))
    for i in range(times):
        sketch = build(spec | {"seed": 1000 * i}, epsilon)
        errors[i] = sketch.estimate(sketch.draw_tally(histogram, generator), n) - histogram / n
    spread = errors.std(axis=0, ddof=1) / np.sqrt(times)
    assert np.all(np.abs(errors.mean(axis=0)) < SIGMAS * spread)
    predicted = sketch.variance(n, histogram / n)
    squares = errors**2
    spread = squares.std(axis=0, ddof=1) / np.sqrt(times)
    assert np.all(np.abs(squares.mean(axis=0) - predicted) < SIGMAS * spread)


def test_the_sketch_given_its_hashes_is_off_by_their_collisions_only() -> None:
    sketch = example("hadamard-sketch-5", "1")
    places = sketch.places  # type: ignore[attr-defined]
    shared = (places[:, :, None] == places[:, None, :]).mean(axis=0)
    w = sketch.to_json()["buckets"]
    estimates = np.array([sketch.estimate(t, 1) for t in output_tallies(sketch)])
    expected = w / (w - 1) * (shared - 1 / w)
    assert np.allclose(matrix(sketch) @ estimates, expected, atol=1e-12)


def test_local_hashing_given_its_seeds_supports_as_its_collisions_say() -> None:
    oracle = example("olh-5", "1")
    assert isinstance(oracle, SupportOracle)
    placed = buckets(np.arange(32), np.arange(5)[:, None], 3)
    together = (placed[:, None] == placed[None]).mean(axis=2)
    p = float(oracle.p)
    supports = matrix(oracle) @ output_tallies(oracle)
    assert np.allclose(supports, together * p + (1 - together) * (1 - p) / 2, atol=1e-12)
    assert np.allclose(np.diag(supports), p)
    assert oracle.q == Fraction(1, 3)
