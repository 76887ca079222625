"""Upper bounds of the size of a partition's state record, in bytes of JSON.

A plan is refused if the record could become too large for Kafka.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from calmstream.common.errors import Reason

if TYPE_CHECKING:
    from calmstream.estimators.plan.plan import Plan

HEADROOM = 100  # the bounds hold if a window receives at most so many times its expected reports
_LARGEST = (1 << 63) - 1
_INTEGER = len(str(_LARGEST))
_HEADER = 1024  # of all but counts: version, digest, topic id, offsets, clocks, their names
_NAMES = 128


def window_bytes(views: int, width: int, reports: int, largest_count: int) -> int:
    """Return an upper bound of the bytes of one group's counts and rejections in JSON."""
    n = len(str(min(reports, _LARGEST))) + 1
    counter = len(str(min(reports * largest_count, _LARGEST))) + 1
    rejects = sum(len(reason.value) + _INTEGER + 4 for reason in Reason)
    return _NAMES + rejects + views * (n + width * counter + 2)


def record_bytes(plan: Plan) -> int:
    """Return an upper bound of the bytes of a partition record, from the largest group."""
    open_windows = min(2 + -(-(plan.grace + plan.skew) // plan.window), plan.windows)
    reports = HEADROOM * plan.users

    def size(views: int, width: int, largest_count: int) -> int:
        total = window_bytes(views, width, reports * plan.windows, largest_count)
        return total + open_windows * window_bytes(views, width, reports, largest_count)

    return _HEADER + max(
        size(len(group.views), group.mechanism.width, group.mechanism.largest_count)
        for group in plan.groups
    )


RECORD_BYTES = 249  # of a record but its counters: its line of JSON, its key, the broker's fields
_OFFSET = 9
_SPARE_BITS = 1.0  # what compression by bytes leaves of a counter above its logarithm


def kept_window_bytes(plan: Plan) -> float:
    """Return the size of one window's records, with the running total half-way through the plan.

    An estimate, not a bound: reports are taken as spread by the plan's shares, and a counter as a
    quarter of its view's reports. Noise leaves little of its bits to compress.
    """
    size = 0.0
    halfway = max((plan.windows + 1) // 2, 1)
    for group in plan.groups:
        mechanism = group.mechanism
        n = plan.users * np.asarray(group.shares, np.float64) / plan.total_share
        counters = np.stack([n, n * halfway]) * mechanism.largest_count / 4.0
        bits = float((np.log2(1.0 + counters) + _SPARE_BITS).sum()) * (1 + mechanism.width)
        size += bits / 8.0 + RECORD_BYTES + _OFFSET * plan.partitions
    return size
