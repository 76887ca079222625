"""Check what every mechanism must do, for all registered mechanisms.

A mechanism randomises a value into a report. The tests compare its columns, the sum of tallies, its
privacy loss and its unbiased estimate with exact computations.
"""

from __future__ import annotations

import json
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calmstream.common.errors import PlanError
from calmstream.estimators.mechanisms.base import Mechanism
from calmstream.estimators.mechanisms.registry import build, names, standard
from calmstream.estimators.randomness import SeededRandomness
from tests.support.mechanisms import (
    EXAMPLES,
    HASHED,
    SPLIT,
    below_exp,
    codes,
    every_report,
    example,
    matrix,
    output_tallies,
    parts,
    possible_codes,
    worst_ratio,
)

each_example = pytest.mark.parametrize("key", EXAMPLES)
exactly_unbiased = [k for k, s in EXAMPLES.items() if s["name"] not in HASHED]


def test_every_registered_mechanism_has_an_example() -> None:
    assert {s["name"] for s in EXAMPLES.values()} == set(names())


@each_example
def test_reports_have_the_declared_columns(key: str) -> None:
    mechanism = example(key)
    n = 3000
    values = np.arange(n) % mechanism.cells
    reports = mechanism.perturb(values, SeededRandomness(1))
    assert list(reports) == [column.name for column in mechanism.columns]
    for column in mechanism.columns:
        entries = reports[column.name]
        if column.kind == "int":
            assert entries.shape == (n,)
            assert entries.dtype.kind in "iu"
            assert entries.min() >= 0
            assert entries.max() < column.bound
        else:
            assert entries.shape == (n, -(-column.bound // 8))
            assert entries.dtype == np.uint8
            unpacked = np.unpackbits(entries, axis=1, bitorder="little")
            assert not unpacked[:, column.bound :].any()
    assert set(codes(mechanism, reports).tolist()) <= set(possible_codes(mechanism))


@each_example
@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.uint64])
def test_inputs_of_any_integer_type_give_the_same_reports(key: str, dtype: type) -> None:
    mechanism = example(key)
    values = np.arange(100) % mechanism.cells
    expected = mechanism.perturb(values, SeededRandomness(2))
    assert np.array_equal(values, np.arange(100) % mechanism.cells), "the input does not change"
    got = mechanism.perturb(values.astype(dtype), SeededRandomness(2))
    assert all(np.array_equal(got[name], expected[name]) for name in expected)


@each_example
def test_an_empty_batch_is_nothing(key: str) -> None:
    mechanism = example(key)
    reports = mechanism.perturb(np.zeros(0, np.int64), SeededRandomness(4))
    for column in mechanism.columns:
        assert len(reports[column.name]) == 0
    for view, views in ((None, 1), (np.zeros(0, np.int64), 3)):
        counts = mechanism.tally(reports, view, views)
        assert counts.shape == (views, mechanism.width)
        assert counts.dtype == np.int64
        assert not counts.any()
    assert mechanism.estimate(counts[0], 0).tolist() == [0.0] * mechanism.cells


@each_example
def test_the_most_that_a_report_adds_to_a_counter_is_stated_exactly(key: str) -> None:
    mechanism = example(key)
    assert output_tallies(mechanism).max() == mechanism.largest_count


@each_example
def test_the_spec_is_json_and_builds_the_same_mechanism(key: str) -> None:
    mechanism = example(key, "0.7")
    document = mechanism.to_json()
    assert document == EXAMPLES[key]
    assert build(json.loads(json.dumps(document)), "0.7") == mechanism


@each_example
def test_every_field_is_needed_and_no_other_is_known(key: str) -> None:
    for field in EXAMPLES[key]:
        fewer = {k: v for k, v in EXAMPLES[key].items() if k != field}
        with pytest.raises(PlanError, match=field if field != "name" else "unknown mechanism"):
            build(fewer, "1")
    with pytest.raises(PlanError, match="no field 'colour'"):
        build(EXAMPLES[key] | {"colour": 1}, "1")
    with pytest.raises(PlanError, match="epsilon"):
        build(EXAMPLES[key], "0")


@each_example
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_tallies_add_up_over_splits_and_views(key: str, data: st.DataObject) -> None:
    mechanism = example(key)
    n = data.draw(st.integers(1, 60))
    views = data.draw(st.integers(1, 5))
    seed = data.draw(st.integers(0, 1 << 30))
    rng = np.random.default_rng(seed)
    reports = mechanism.perturb(rng.integers(0, mechanism.cells, n), SeededRandomness(seed))
    view = rng.integers(0, views, n)
    whole = mechanism.tally(reports, view, views)
    assert whole.shape == (views, mechanism.width)
    cut = data.draw(st.integers(0, n))
    first, second = slice(None, cut), slice(cut, None)
    halves = mechanism.tally(parts(reports, first), view[first], views)
    halves = halves + mechanism.tally(parts(reports, second), view[second], views)
    assert np.array_equal(whole, halves)
    for v in range(views):
        alone = mechanism.tally(parts(reports, view == v), None, 1)
        assert np.array_equal(whole[v], alone[0])
    order = rng.permutation(n)
    assert np.array_equal(whole, mechanism.tally(parts(reports, order), view[order], views))


@each_example
def test_large_batches_take_other_paths_to_the_same_counts(key: str) -> None:
    mechanism = example(key)
    n, views = 70_001, 3
    rng = np.random.default_rng(5)
    reports = mechanism.perturb(rng.integers(0, mechanism.cells, n), SeededRandomness(6))
    view = rng.integers(0, views, n).astype(np.uint16)
    whole = mechanism.tally(reports, view, views)
    pieces = [slice(a, a + 999) for a in range(0, n, 999)]
    summed = sum(mechanism.tally(parts(reports, p), view[p], views) for p in pieces)
    assert np.array_equal(whole, summed)
    assert np.array_equal(whole.sum(axis=0), mechanism.tally(reports, None, 1)[0])


def assert_within(mechanism: Mechanism, epsilon: str) -> None:
    channel = mechanism.channel()
    assert len(channel) == mechanism.cells
    assert {len(row) for row in channel} == {len(possible_codes(mechanism))}
    assert all(sum(row) == 1 for row in channel)
    worst = max(max(column) / min(column) for column in zip(*channel, strict=True))
    assert 1 < worst == worst_ratio(mechanism) <= below_exp(Fraction(epsilon))


@each_example
@pytest.mark.parametrize("epsilon", ["0.01", "0.2", "1", "2.5", "8"])
def test_the_listed_channel_is_within_epsilon_and_the_structure_says_so(
    key: str, epsilon: str
) -> None:
    assert_within(example(key, epsilon), epsilon)


@pytest.mark.parametrize(
    ("name", "cells"),
    [("grr", 128), ("oue", 12), ("sue", 11), ("subset-selection", 13), ("hadamard-response", 64)],
)
@pytest.mark.parametrize("epsilon", ["0.01", "8"])
def test_the_structure_holds_up_to_what_can_be_listed(name: str, cells: int, epsilon: str) -> None:
    assert_within(standard(name, epsilon, cells), epsilon)


@pytest.mark.parametrize("name", sorted(set(names()) - {"hadamard-coefficient"} - SPLIT))
@pytest.mark.parametrize("cells", [16, 256, 4096])
@pytest.mark.parametrize("epsilon", ["0.01", "0.2", "1", "8"])
def test_large_domains_are_within_epsilon_by_structure(name: str, cells: int, epsilon: str) -> None:
    mechanism = standard(name, epsilon, cells)
    bound = below_exp(Fraction(epsilon))
    assert 1 < worst_ratio(mechanism) <= bound
    # Rounding down costs next to nothing.
    assert worst_ratio(mechanism) > bound * (1 - Fraction(1, 1 << 30))
    values = np.array([0, cells - 1])
    counts = mechanism.tally(mechanism.perturb(values, SeededRandomness(7)), None, 1)
    assert mechanism.estimate(counts[0], 2).shape == (cells,)


@pytest.mark.parametrize("key", exactly_unbiased)
@pytest.mark.parametrize("epsilon", ["0.2", "1", "8"])
def test_the_estimate_is_unbiased_and_its_variance_exact_under_the_channel(
    key: str, epsilon: str
) -> None:
    mechanism = example(key, epsilon)
    frequencies = np.arange(1.0, mechanism.cells + 1)
    frequencies /= frequencies.sum()
    estimates = np.array([mechanism.estimate(t, 1) for t in output_tallies(mechanism)])
    channel = matrix(mechanism)
    expected = channel @ estimates
    assert np.allclose(expected, np.eye(mechanism.cells), atol=1e-9 * np.abs(estimates).max())
    per_input = channel @ estimates**2 - expected**2
    assert np.allclose(mechanism.variance(1, frequencies), frequencies @ per_input, rtol=1e-9)
    assert np.allclose(mechanism.variance(10, frequencies), frequencies @ per_input / 10)
    assert np.allclose(mechanism.variance(1), per_input.mean(axis=0), rtol=1e-9)


@each_example
def test_estimates_are_linear_in_the_counts(key: str) -> None:
    mechanism = example(key)
    tallies = output_tallies(mechanism)
    outputs = len(tallies)
    alone = np.mean([mechanism.estimate(t, 1) for t in tallies], axis=0)
    assert np.allclose(mechanism.estimate(tallies.sum(axis=0), outputs), alone)
    assert np.array_equal(mechanism.tally(every_report(mechanism), None, 1)[0], tallies.sum(axis=0))
