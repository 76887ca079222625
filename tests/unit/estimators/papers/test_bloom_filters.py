"""Check the properties of Bloom filters that privacy depends on, for all pairs of values."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calmstream.common.errors import PlanError
from calmstream.estimators.papers.lopub import bloom_filters
from calmstream.estimators.papers.lopub.bloom_filters import Facts, facts, filter_rows


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
