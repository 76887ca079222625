"""Upper bounds of the size of a partition's state record, in bytes of JSON.

A plan is refused if the record could become too large for Kafka.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from calmstream.common.errors import Reason

if TYPE_CHECKING:
    from calmstream.estimators.plan.plan import Plan

HEADROOM = 100
"""The bounds hold if a window receives at most this number of times its expected reports."""

_LARGEST = (1 << 63) - 1
_INTEGER = len(str(_LARGEST))
_HEADER = 1024
"""Bytes of everything except counts: version, digest, topic id, offsets, clocks and their names."""

_NAMES = 128


def window_bytes(views: int, width: int, reports: int, largest_count: int) -> int:
    """Return an upper bound of the bytes of one group's counts and rejections in JSON."""
    n = len(str(min(reports, _LARGEST))) + 1
    counter = len(str(min(reports * largest_count, _LARGEST))) + 1
    rejects = sum(len(reason.value) + _INTEGER + 4 for reason in Reason)
    return _NAMES + rejects + views * (n + width * counter + 2)


def record_bytes(
    views: int,
    width: int,
    largest_count: int,
    *,
    users: int,
    windows: int,
    open_windows: int,
) -> int:
    """Return an upper bound of the bytes of a partition record of one group."""
    per_window = HEADROOM * users
    total = window_bytes(views, width, per_window * windows, largest_count)
    open_window = window_bytes(views, width, per_window, largest_count)
    return _HEADER + total + open_windows * open_window


RECORD_BYTES = 249
"""Everything of a record but its counters: its line of JSON, its key, the broker's own fields."""

_OFFSET = 9
_SPARE_BITS = 1.0
"""What compression by bytes leaves of a counter above its logarithm."""


def kept_window_bytes(plan: Plan) -> float:
    """Return the size of one window's records, with the running total half-way through the plan.

    An estimate, not a bound: reports are taken as spread by the plan's shares, and a counter as a
    quarter of its view's reports. Noise leaves little of its bits to compress.
    """
    size = 0.0
    halfway = max((plan.windows + 1) // 2, 1)
    for group, mechanism in zip(plan.groups, plan.mechanisms, strict=True):
        n = plan.users * np.asarray(group.shares, np.float64) / plan.total_share
        counters = np.stack([n, n * halfway]) * mechanism.largest_count / 4.0
        bits = float((np.log2(1.0 + counters) + _SPARE_BITS).sum()) * (1 + mechanism.width)
        size += bits / 8.0 + RECORD_BYTES + _OFFSET * plan.partitions
    return size
