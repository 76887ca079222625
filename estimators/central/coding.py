"""One packed record per user, and the coded table that a release is computed on.

A packed record is a place in the log, which orders a user's records, and then the values in UTF-8.
Its size depends on that user's own values alone and is bounded: at most 1,024 bytes a value.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Callable, Sequence
from math import ceil, isqrt
from typing import TYPE_CHECKING

import numpy as np

from estimators.central.tuples import Records
from estimators.central.wire import MAX_VALUE_BYTES

if TYPE_CHECKING:
    from estimators.central.plan import CentralPlan

_PLACE = struct.Struct(">QHQH")
_SEPARATOR = b"\xff"
"""A byte that UTF-8 never contains."""

_ALIVE_EVERY = 1 << 16

ROW_BYTES = 400
"""Memory of one user's packed record beside its values: digest, place, table entry, objects."""


def pack(timestamp: int, partition: int, offset: int, row: int, values: Sequence[str]) -> bytes:
    """One record; of two packed records of a user the smaller one is the earlier one.

    Args:
        timestamp: the batch's append time in milliseconds since the epoch.
        partition: the batch's.
        offset: the batch's.
        row: the record's position in its batch.
        values: as :func:`.wire.value_text` returns them.
    """
    place = _PLACE.pack(max(timestamp, 0), partition, offset, row)
    return place + _SEPARATOR.join([value.encode() for value in values])


def most_raw_bytes(plan: CentralPlan) -> int:
    """Return the most memory for one window's raw records, by the users that the plan is meant for.

    Whatever the records say; 0 where the plan does not state its users. How many of them are in the
    sample is random: this allows for seven standard deviations more than the mean.
    """
    mean = plan.users * plan.sampled
    kept = (
        plan.users
        if plan.sampled == 1
        else min(plan.users, ceil(mean) + 7 * (isqrt(ceil(mean)) + 1))
    )
    return kept * (ROW_BYTES + len(plan.columns) * (MAX_VALUE_BYTES + 1))


def code_records(
    rows: list[bytes], columns: int, alive: Callable[[], None] = lambda: None
) -> tuple[Records, tuple[list[bytes], ...]]:
    """Turn packed records into codes; ``rows`` is emptied meanwhile to save memory.

    A code is the rank of its label among the labels of its column: which code a value has, and so
    the order of what is released, says nothing of the order of records.

    Args:
        rows: one packed record per user.
        columns: number of columns.
        alive: called every second or more often.

    Returns:
        The records and, for every column, the label of each code in UTF-8, ascending.

    Cost: O(n · columns) and the sorting of the distinct labels.
    """
    count = len(rows)
    index: list[dict[bytes, int]] = [{} for _ in range(columns)]
    flat = array("i")
    while rows:
        values = rows.pop()[_PLACE.size :].split(_SEPARATOR)
        for own, value in zip(index, values, strict=True):
            flat.append(own.setdefault(value, len(own)) if value else -1)
        if len(rows) % _ALIVE_EVERY == 0:
            alive()
    codes = np.array(np.asarray(flat).reshape(count, columns), np.int32, order="F")
    del flat
    labels = []
    for j, own in enumerate(index):
        labels.append(sorted(own))
        place = np.fromiter((own[label] for label in labels[j]), np.int64, len(own))
        rank = np.full(len(own) + 1, -1, np.int32)  # the last entry serves code -1
        rank[place] = np.arange(len(own))
        codes[:, j] = rank[codes[:, j]]
        own.clear()
        alive()
    return Records(codes, tuple(map(len, labels))), tuple(labels)
