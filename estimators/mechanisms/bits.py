"""Rows of packed random bits, and counts of the ones at every position over many rows.

A row is ``ceil(bits / 8)`` bytes; bit b of a row is bit b % 8 of its byte b // 8.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calmstream.estimators.arrays import Counts
from calmstream.estimators.draws import coins
from calmstream.estimators.randomness import Randomness

Rows = NDArray[np.uint8]

FEW_BYTES = 1 << 13  # up to here, unpacking the bits is as fast as adding words
BLOCK_BYTES = 1 << 20  # counted at once: numpy's overhead is small, and they stay in a cache
SEGMENT_BYTES = 1 << 12  # a view, on average: up to here, one call counts all views


def row_bytes(bits: int) -> int:
    return -(-bits // 8)


def random_rows(n: int, bits: int, probability: Fraction, randomness: Randomness) -> Rows:
    width = row_bytes(bits)
    rows = coins(n * width, probability, randomness).reshape(n, width)
    if bits % 8:
        rows[:, -1] &= (1 << bits % 8) - 1
    return rows


def count_bits(rows: Rows, bits: int, view: NDArray[Any] | None, views: int) -> Counts:
    """Count ones per view and position: shape (views, bits), int64.

    ``rows``: shape (n, row_bytes(bits)), uint8; ``view``: as `Mechanism.tally` has it.
    """
    if view is None or views == 1:
        return _ones(rows)[None, :bits]
    out = np.zeros((views, 8 * rows.shape[1]), np.int64)
    if len(rows) == 0:
        return out[:, :bits]
    order = np.argsort(view.astype(np.uint16 if views <= 1 << 16 else np.int64), kind="stable")
    ordered = rows[order]
    n = np.bincount(view, minlength=views)
    present = np.flatnonzero(n)
    ends = np.cumsum(n)
    if rows.size <= views * SEGMENT_BYTES:
        starts = (ends - n)[present]
        out[present] = np.add.reduceat(_unpack(ordered), starts, axis=0, dtype=np.int64)
    else:
        for v in present:
            out[v] = _ones(ordered[ends[v] - n[v] : ends[v]])
    return out[:, :bits]


def _unpack(rows: Rows) -> Rows:
    return np.unpackbits(rows, axis=1, bitorder="little")


def _ones(rows: Rows) -> Counts:
    """Count ones per position, also at unused positions: shape (8 · row bytes,), int64."""
    total = np.zeros(8 * rows.shape[1], np.int64)
    # `_add_thirds` needs a multiple of 24 rows: three parts of whole 64-bit words.
    step = max(24, BLOCK_BYTES // rows.shape[1] // 24 * 24)
    for start in range(0, len(rows), step):
        total += _ones_of_block(np.ascontiguousarray(rows[start : start + step]))
    return total


def _ones_of_block(rows: Rows) -> Counts:
    """Count ones per position of a block by carry-save addition.

    Three rows become a row of sums and a row of carries, which counts twice as much and is added in
    the next round. The few rows that remain in a round are unpacked and counted directly.
    """
    total = np.zeros(8 * rows.shape[1], np.int64)
    weight = 1
    while rows.size > FEW_BYTES:
        carries = []
        while rows.size > FEW_BYTES and len(rows) >= 24:
            total += weight * _ones_of_few(rows[len(rows) // 24 * 24 :])
            rows, carry = _add_thirds(rows)
            carries.append(carry)
        total += weight * _ones_of_few(rows)
        rows = np.concatenate(carries) if carries else rows[:0]
        weight *= 2
    return total + weight * _ones_of_few(rows)


def _add_thirds(rows: Rows) -> tuple[Rows, Rows]:
    """Add three equal parts of the rows bit by bit, and return the sums and the carries."""
    part = len(rows) // 24 * 8
    a, b, c = (rows[i * part : (i + 1) * part].reshape(-1).view(np.uint64) for i in range(3))
    half = a ^ b
    carry = a & b
    total = half ^ c
    half &= c
    carry |= half
    shape = (part, rows.shape[1])
    return total.view(np.uint8).reshape(shape), carry.view(np.uint8).reshape(shape)


def _ones_of_few(rows: Rows) -> Counts:
    ones: Counts = _unpack(rows).sum(axis=0, dtype=np.int64)
    return ones
