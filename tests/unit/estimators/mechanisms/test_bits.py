from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calmstream.estimators.mechanisms.bits import BLOCK_BYTES, FEW_BYTES, count_bits
from calmstream.estimators.mechanisms.registry import build


def naive(rows: np.ndarray, bits: int) -> list[int]:
    return [int((rows[:, b // 8] >> (b % 8) & 1).sum()) for b in range(bits)]


def test_bit_b_is_bit_b_mod_8_of_byte_b_div_8() -> None:
    oracle = build({"name": "oue", "cells": 11}, "1")
    reports = {"b": np.array([[0b1000_0001, 0b0000_0100], [0b0000_0001, 0]], np.uint8)}
    assert oracle.tally(reports, None, 1).tolist() == [[2, 0, 0, 0, 0, 0, 0, 1, 0, 0, 1]]


# Rows just below and above every change of path, with widths that do not divide words.
@pytest.mark.parametrize("width", [1, 2, 3, 13, 32])
@pytest.mark.parametrize(
    "size", [1, FEW_BYTES - 40, FEW_BYTES + 1, 5 * FEW_BYTES, BLOCK_BYTES + 99]
)
def test_counting_equals_looking_at_every_bit(width: int, size: int) -> None:
    n = max(1, size // width)
    rows = np.random.default_rng(size + width).integers(0, 256, (n, width), dtype=np.uint8)
    assert count_bits(rows, 8 * width - 3, None, 1).tolist() == [naive(rows, 8 * width - 3)]


@settings(max_examples=60, deadline=None)
@given(
    n=st.integers(0, 300),
    bits=st.integers(1, 70),
    views=st.integers(1, 9),
    seed=st.integers(0, 1 << 30),
)
def test_views_are_counted_apart(n: int, bits: int, views: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, 256, (n, -(-bits // 8)), dtype=np.uint8)
    view = rng.integers(0, views, n)
    counts = count_bits(rows, bits, view, views)
    assert counts.tolist() == [naive(rows[view == v], bits) for v in range(views)]


def test_long_views_are_counted_apart_too() -> None:
    rng = np.random.default_rng(3)
    rows = rng.integers(0, 256, (40_000, 5), dtype=np.uint8)
    # Views of very different sizes, one of them empty, more than one sorted byte of them.
    view = np.minimum(rng.geometric(0.4, 40_000), 299)
    counts = count_bits(rows, 37, view, 300)
    for v in np.unique(view):
        assert counts[v].tolist() == naive(rows[view == v], 37)
    assert counts.sum() == np.unpackbits(rows, axis=1, bitorder="little")[:, :37].sum()
