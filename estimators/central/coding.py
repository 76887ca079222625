"""Packed records, one per user (place in the log, values in UTF-8), and the coded table."""

from __future__ import annotations

import struct
from array import array
from collections.abc import Sequence
from math import ceil, isqrt

import numpy as np

from calmstream.estimators.central.plan import CentralPlan
from calmstream.estimators.central.tuples import Records
from calmstream.estimators.central.wire import MAX_VALUE_BYTES

_PLACE = struct.Struct(">QHQH")
_SEPARATOR = b"\xff"  # a byte that UTF-8 never contains
ROW_BYTES = 400  # of a user's packed record without its values: digest, place, Python objects


def pack(timestamp: int, partition: int, offset: int, row: int, values: Sequence[str]) -> bytes:
    """Return one packed record; of two records of a user, the earlier one compares as smaller."""
    place = _PLACE.pack(max(timestamp, 0), partition, offset, row)
    return place + _SEPARATOR.join([value.encode() for value in values])


def most_raw_bytes(plan: CentralPlan) -> int:
    """Return the most bytes of the raw records of one window, by the plan; 0 if it has no users."""
    # The sample is random: seven standard deviations above its mean are allowed for.
    mean = ceil(plan.users * plan.sampled)
    kept = min(plan.users, mean + 7 * (isqrt(mean) + 1))
    return kept * (ROW_BYTES + len(plan.columns) * (MAX_VALUE_BYTES + 1))


def code_records(rows: list[bytes], columns: int) -> tuple[Records, tuple[list[bytes], ...]]:
    """Turn packed records into codes, with each column's labels in UTF-8; it empties ``rows``.

    A code is the rank of a label in its column, so that codes and the order of a release do not
    reveal the order of the records.
    """
    count = len(rows)
    index: list[dict[bytes, int]] = [{} for _ in range(columns)]
    flat = array("i")
    while rows:
        values = rows.pop()[_PLACE.size :].split(_SEPARATOR)
        for own, value in zip(index, values, strict=True):
            flat.append(own.setdefault(value, len(own)) if value else -1)
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
    return Records(codes, tuple(map(len, labels))), tuple(labels)
