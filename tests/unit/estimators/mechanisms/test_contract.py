"""Check that what each registered mechanism states about itself agrees with its probabilities."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from estimators.mechanisms import MECHANISMS, Mechanism
from tests.support.mechanisms import EXAMPLES, HASHED, SPLIT, example, matrix, output_tallies

Floats = NDArray[np.float64]

MEMBERS = sorted(
    {name for name in (*vars(Mechanism), *Mechanism.__annotations__) if not name.startswith("_")}
)
EXACT = [key for key, spec in EXAMPLES.items() if spec["name"] not in HASHED | SPLIT]
UNEVEN = [key for key in EXACT if EXAMPLES[key]["name"] not in ("subset-selection", "product-grr")]
"""Examples whose covariance is exact between cells for any frequencies."""


def dense(mechanism: Mechanism, n: int, frequencies: Floats) -> Floats:
    own = mechanism.covariance(n, frequencies)
    return np.asarray(np.diag(own.diagonal) - own.factors @ own.factors.T)


def answers(mechanism: Mechanism) -> Floats:
    """Return the estimate from each output alone: shape (outputs, cells)."""
    return np.array([mechanism.estimate(tally, 1) for tally in output_tallies(mechanism)])


def exact(mechanism: Mechanism, frequencies: Floats) -> Floats:
    """Return the covariance of the estimate from one random device, by enumeration."""
    weight = frequencies @ matrix(mechanism)
    each = answers(mechanism)
    mean = weight @ each
    return np.asarray((each.T * weight) @ each - np.outer(mean, mean))


def uneven(cells: int) -> Floats:
    weights = np.arange(1.0, cells + 1.0)
    return np.asarray(weights / weights.sum())


def test_every_registered_mechanism_has_an_example() -> None:
    assert {spec["name"] for spec in EXAMPLES.values()} == set(MECHANISMS)


def test_the_facts_that_other_packages_need_are_members() -> None:
    facts = {"fixed_total", "counts_joint", "drawn_cells", "largest_count", "covariance"}
    assert facts <= set(MEMBERS)


@pytest.mark.parametrize("member", MEMBERS)
@pytest.mark.parametrize("name", sorted(MECHANISMS))
def test_every_mechanism_implements_the_member(name: str, member: str) -> None:
    assert hasattr(MECHANISMS[name].standard("1", 2), member)


@pytest.mark.parametrize("key", EXAMPLES)
def test_fixed_total_says_whether_every_output_adds_up_to_one(key: str) -> None:
    mechanism = example(key)
    totals = answers(mechanism).sum(axis=1)
    assert mechanism.fixed_total == np.allclose(totals, 1.0, atol=1e-9)


@pytest.mark.parametrize("key", EXAMPLES)
def test_the_covariance_of_the_total_is_zero_where_the_total_is_fixed(key: str) -> None:
    mechanism = example(key)
    spread = dense(mechanism, 7, uneven(mechanism.cells))
    assert mechanism.fixed_total == (abs(spread.sum()) < 1e-9 * np.trace(spread))


@pytest.mark.parametrize("key", EXACT)
def test_the_sum_of_all_variances_is_exact(key: str) -> None:
    mechanism = example(key)
    frequencies = uneven(mechanism.cells)
    stated = np.trace(dense(mechanism, 10, frequencies))
    assert stated == pytest.approx(np.trace(exact(mechanism, frequencies)) / 10, rel=1e-9)


@pytest.mark.parametrize("key", UNEVEN)
def test_the_covariance_is_exact(key: str) -> None:
    mechanism = example(key)
    frequencies = uneven(mechanism.cells)
    expected = exact(mechanism, frequencies) / 10
    np.testing.assert_allclose(dense(mechanism, 10, frequencies), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("key", [key for key in EXACT if key.startswith("subset")])
def test_the_covariance_of_sets_is_exact_for_equal_frequencies(key: str) -> None:
    mechanism = example(key)
    even = np.full(mechanism.cells, 1.0 / mechanism.cells)
    expected = exact(mechanism, even) / 10
    np.testing.assert_allclose(dense(mechanism, 10, even), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("key", EXAMPLES)
def test_a_tally_drawn_from_inputs_is_the_one_drawn_from_their_histogram(key: str) -> None:
    mechanism = example(key)
    values: NDArray[Any] = np.arange(200) % mechanism.cells
    histogram = np.bincount(values, minlength=mechanism.cells)
    ours = mechanism.draw_tally_of(values, np.random.default_rng(3))
    theirs = mechanism.draw_tally(histogram, np.random.default_rng(3))
    np.testing.assert_array_equal(ours, theirs)
    assert 1 <= mechanism.drawn_cells <= mechanism.cells
