"""Check the properties of Bloom filters that privacy depends on, for all pairs of values."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calmstream.common.errors import PlanError
from calmstream.estimators.mechanisms.registry import build
from calmstream.estimators.papers.lopub import bloom_filters
from calmstream.estimators.papers.lopub.bloom_filters import Facts, comparisons, facts, filter_rows


def by_all_pairs(axis: int, cardinality: int, bits: int, hashes: int) -> Facts | None:
    """Return the result of comparing all pairs of filters; None if two filters are equal."""
    rows = filter_rows(axis, np.arange(cardinality), bits, hashes).astype(int)
    apart = np.abs(rows[:, None, :] - rows[None, :, :]).sum(axis=2)
    if apart[~np.eye(cardinality, dtype=bool)].min() == 0:
        return None
    return Facts(int(apart.max()), int(rows.sum(axis=1).max()))


@given(
    axis=st.integers(0, 60),
    cardinality=st.integers(2, 60),
    bits=st.integers(2, 140),
    hashes=st.integers(1, 16),
)
@settings(max_examples=300, deadline=None)
def test_the_facts_are_those_of_all_pairs(
    axis: int, cardinality: int, bits: int, hashes: int
) -> None:
    expected = by_all_pairs(axis, cardinality, bits, hashes)
    if expected is None:
        with pytest.raises(PlanError, match="same filter"):
            facts(axis, cardinality, bits, hashes)
    else:
        assert facts(axis, cardinality, bits, hashes) == expected


@pytest.mark.parametrize("bits", [26, 30, 60, 130])
def test_blocks_change_nothing(bits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = by_all_pairs(1, 150, bits, 12)
    monkeypatch.setattr(bloom_filters, "_VALUES", 7)
    monkeypatch.setattr(bloom_filters, "_ROWS", 5)
    assert facts.__wrapped__(1, 150, bits, 12) == expected


def test_more_values_than_filters_are_refused_without_making_any(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bloom_filters, "filter_rows", None)
    with pytest.raises(PlanError, match="same filter"):
        facts(0, 1 << 40, 1024, 4)


def test_no_more_words_are_compared_than_stated() -> None:
    assert comparisons(4096, 64) == 4096 * 4095 // 2
    assert comparisons(4096, 65) == 4096 * 4095


def test_records_in_any_number_get_the_same_filters() -> None:
    """Check few records, which are hashed one by one, and many, which are looked up in a table."""
    spec = {
        "name": "bloom-rr", "cells": 600, "axes": [30, 20], "bits": 50, "hashes": 4,
        "tables": [[0]],
    }  # fmt: skip
    few, many = build(spec, "1"), build(spec, "1")
    values = np.arange(600)
    looked_up = many._packed(0, values // 20)  # type: ignore[attr-defined]
    for value in range(600):
        one = few._packed(0, np.array([value // 20]))  # type: ignore[attr-defined]
        assert np.array_equal(one[0], looked_up[value])
    assert "filters" not in vars(few)
