"""Reports as rows, and batches of rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

import numpy as np

from calmstream.estimators.plan import Plan
from calmstream.estimators.wire.batch import Batch
from calmstream.producer.gateway.encoding import EncodedBatch, make_batch

Row = tuple[int, tuple[int | bytes, ...]]
"""The view, and one value per column of the mechanism: an integer, or the packed bits."""

T = TypeVar("T")


def row_of(plan: Plan, group: int, batch: Batch) -> Row:
    """Return the row of a batch of one that was decoded by the plan."""
    values: list[int | bytes] = []
    for column in plan.mechanisms[group].columns:
        array = batch.columns[column.name]
        values.append(array.tobytes() if column.kind == "bits" else int(array[0]))
    return 0 if batch.view is None else int(batch.view[0]), tuple(values)


def in_parts(rows: Sequence[T], most: int) -> Iterator[Sequence[T]]:
    """Split rows that leave together into parts of nearly equal size, at most ``most`` each."""
    n = len(rows)
    parts = -(-n // most)
    for i in range(parts):
        yield rows[n * i // parts : n * (i + 1) // parts]


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
