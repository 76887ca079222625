"""Adds up the products of ones of flipped Bloom filters, the counters of `bloom-rr`."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import prod

import numpy as np
from numpy.typing import NDArray

from calmstream.estimators.arrays import Counts

Ones = NDArray[np.float32]
"""Shape (rows, n): for each of n reports the constant 1, then the ones of every value: the number
of 1s in the report at the bits of that value's filter."""

Table = tuple[int, ...]
_BLOCK_ENTRIES = 1 << 18  # products in memory while reports are counted (1 MiB of float32)
_EXACT = 1 << 24  # float32 is exact for integers up to here, which limits the reports of one sum


def add_products(ones: Sequence[Ones], tables: Sequence[Table]) -> Counts:
    """Return the sums over reports of products of ones, table by table: shape (width,), int64."""
    small = [table for table in tables if len(table) <= 2]
    rows = sum(len(ones[i]) for i in {axis for table in small for axis in table})
    # The matrix of all pairs is fast for each product, but has those of other pairs too.
    if rows * rows > 4 * sum(prod(len(ones[i]) for i in table) for table in small):
        small = []
    counted = _from_pairs(ones, small) | _by_last_axis(ones, [t for t in tables if t not in small])
    return np.concatenate([counted[table].reshape(-1) for table in tables])


def _from_pairs(ones: Sequence[Ones], tables: Sequence[Table]) -> dict[Table, Counts]:
    """Return the sums of tables of one or two axes, from one matrix of the sums of all pairs."""
    axes = sorted({axis for table in tables for axis in table})
    if not axes:
        return {}
    together = np.concatenate([ones[i] for i in axes])
    matrix = _products([together], together)
    ends = np.cumsum([0, *(len(ones[i]) for i in axes)]).tolist()
    place = {i: slice(*edge) for i, edge in zip(axes, pairwise(ends), strict=True)}
    # The first row of an axis is constant, so its products with the others are their sums.
    return {
        (i, *rest): matrix[place[i], place[rest[0]]] if rest else matrix[place[i].start, place[i]]
        for i, *rest in tables
    }


def _by_last_axis(ones: Sequence[Ones], tables: Sequence[Table]) -> dict[Table, Counts]:
    """Return the sums of tables; those with the same axes but the last share a product."""
    last_axes: dict[Table, list[int]] = {}
    for *first, last in tables:
        last_axes.setdefault(tuple(first), []).append(last)
    counted = {}
    for shared, lasts in last_axes.items():
        last_rows = np.concatenate([ones[i] for i in lasts])
        first_rows = [ones[i] for i in shared] or [np.ones_like(last_rows[:1])]
        sums = _products(first_rows, last_rows)
        ends = np.cumsum([len(ones[i]) for i in lasts])
        for last, part in zip(lasts, np.split(sums, ends[:-1], axis=1), strict=True):
            counted[*shared, last] = part
    return counted


def _products(first: Sequence[Ones], last: Ones) -> Counts:
    """Return the sums over reports of outer products: (product of first rows, last rows)."""
    total = np.zeros((prod(len(f) for f in first), len(last)), np.int64)
    largest = prod(int(f.max(initial=1)) for f in (*first, last))
    step = min(max(1, _BLOCK_ENTRIES // len(total)), max(1, _EXACT // largest))
    for start in range(0, last.shape[1], step):
        rows = last[:, start : start + step]
        block = first[0][:, start : start + step]
        for f in first[1:]:
            factor = f[:, start : start + step]
            block = (block[:, None, :] * factor).reshape(-1, rows.shape[1])
        total += (block @ rows.T).astype(np.int64)
    return total
