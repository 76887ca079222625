"""Batches of reports: the reports of many devices, shuffled and encoded as one Kafka record."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calmstream.broker.transport import Headers
from calmstream.estimators.mechanisms.base import Reports
from calmstream.estimators.plan import Plan
from calmstream.estimators.randomness import Randomness
from calmstream.estimators.wire import packed
from calmstream.estimators.wire.batch import (
    BATCH_ID_BYTES,
    MAX_BATCH_BYTES,
    MAX_BATCH_REPORTS,
)
from calmstream.producer.device.encoding import (
    FRAME_BYTES,
    HEAD_BYTES,
    encode_reports,
    packed_reports,
)

DEFAULT_SIZE = 1000
"""Reports in a full batch."""


@dataclass(frozen=True, slots=True)
class EncodedBatch:
    """A batch that is ready to be sent; every resend has the same bytes.

    Attributes:
        group: index of its group.
        n: number of reports.
        batch_id: 16 random bytes: the record's key, by which a resend is recognised.
        value: the record's body.
        headers: the record's Kafka headers; workers ignore them.
    """

    group: int
    n: int
    batch_id: bytes
    value: bytes = field(repr=False)
    headers: Headers = ()


def make_batch(
    plan: Plan, group: int, period: int, view: NDArray[Any], columns: Reports
) -> EncodedBatch:
    """Encode reports and draw the id of their batch. The rows must be in random order.

    The body is packed where the plan allows it, else JSON.
    """
    encode = packed_reports if plan.packed else encode_reports
    value = encode(plan, group, period, view, columns)
    return EncodedBatch(group, len(view), os.urandom(BATCH_ID_BYTES), value)


def permutation(n: int, randomness: Randomness) -> NDArray[np.int64]:
    """Return a uniformly random order of n items: shape (n,), int64.

    Sorts random words of 64 bits and draws them anew in the rare case that two are equal, so that
    every order has exactly the same probability. O(n log n).
    """
    while True:
        words = np.frombuffer(randomness.bytes(8 * n), np.uint64)
        order = np.argsort(words, kind="stable")
        ascending = words[order]
        if not (ascending[1:] == ascending[:-1]).any():
            return order


def most_reports(plan: Plan, group: int) -> int:
    """Return the most reports of a group that one record may hold, by size and the plan's limit."""
    if plan.packed:
        size, most = float(packed.form_of(plan, group).report_bytes), packed.MAX_REPORTS
    else:
        size, most = _json_report_bytes(plan, group), MAX_BATCH_REPORTS
    room = MAX_BATCH_BYTES - FRAME_BYTES - HEAD_BYTES
    allowed = most if plan.limits is None else min(most, plan.limits.batch_reports)
    return max(1, min(allowed, int(room / size)))


def _json_report_bytes(plan: Plan, group: int) -> float:
    """Return the most bytes that a report adds to a JSON batch of many."""
    size = float(len(str(len(plan.groups[group].views))) + 1)
    for column in plan.mechanisms[group].columns:
        row = -(-column.bound // 8)
        size += row * 4 / 3 if column.kind == "bits" else len(str(column.bound)) + 1
    return size
