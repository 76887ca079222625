"""Reports as rows, and rows of many devices as one Kafka record."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calmstream.estimators.mechanisms.base import Reports
from calmstream.estimators.plan import Plan
from calmstream.estimators.randomness import Randomness
from calmstream.estimators.wire.batch import (
    BATCH_ID_BYTES,
    MAX_BATCH_BYTES,
    RESERVED_BYTES,
    Batch,
    encode_batch,
    form_of,
)

DEFAULT_SIZE = 1000  # reports in a full batch
Row = tuple[int, tuple[int | bytes, ...]]
"""The view, and one value per column of the mechanism: an integer, or the packed bits."""


@dataclass(frozen=True, slots=True)
class EncodedBatch:
    """Reports as one record; a resend has the same bytes and the same random ``batch_id``.

    While it waits in the spool it has no ``value``: that stands at ``offset`` of its window's file,
    ``length`` bytes with the CRC-32 ``check``.
    """

    plan: Plan
    group: int
    period: int
    n: int
    batch_id: bytes
    value: bytes = field(default=b"", repr=False)
    offset: int = 0
    length: int = 0
    check: int = 0


def make_batch(
    plan: Plan, group: int, period: int, view: NDArray[Any], columns: Reports
) -> EncodedBatch:
    """Encode reports in random order; the length depends on their number only."""
    stated = view if len(plan.groups[group].views) > 1 else None
    value = encode_batch(plan, group, Batch(period, len(view), stated, columns))
    return EncodedBatch(plan, group, period, len(view), os.urandom(BATCH_ID_BYTES), value)


def row_of(plan: Plan, group: int, batch: Batch) -> Row:
    values: list[int | bytes] = []
    for column in plan.mechanisms[group].columns:
        array = batch.columns[column.name]
        values.append(array.tobytes() if column.kind == "bits" else int(array[0]))
    return 0 if batch.view is None else int(batch.view[0]), tuple(values)


def batch_of_rows(plan: Plan, group: int, period: int, rows: Sequence[Row]) -> EncodedBatch:
    """Return a batch of rows, which must be in random order."""
    n = len(rows)
    view = np.array([row[0] for row in rows], np.int64)
    columns: dict[str, Any] = {}
    by_column = zip(*(row[1] for row in rows), strict=True)
    for column, values in zip(plan.mechanisms[group].columns, by_column, strict=True):
        if column.kind == "bits":
            columns[column.name] = np.frombuffer(b"".join(values), np.uint8).reshape(n, -1)
        else:
            columns[column.name] = np.array(values, np.int64)
    return make_batch(plan, group, period, view, columns)


def permutation(n: int, randomness: Randomness) -> NDArray[np.int64]:
    """Return a uniformly random order: shape (n,), int64. O(n log n).

    Words of 64 bits are drawn anew if two are equal: every order has exactly the same probability.
    """
    while True:
        words = np.frombuffer(randomness.bytes(8 * n), np.uint64)
        order = np.argsort(words, kind="stable")
        ascending = words[order]
        if not (ascending[1:] == ascending[:-1]).any():
            return order


def most_reports(plan: Plan, group: int) -> int:
    """The most reports of a group that one record may hold, by size and the plan's limit."""
    room = MAX_BATCH_BYTES - RESERVED_BYTES
    return max(1, min(plan.limits.batch_reports, room // form_of(plan, group).report_bytes))
