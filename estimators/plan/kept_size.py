"""How large the kept counts of one window are: an estimate in bytes of the counts topic."""

from __future__ import annotations

import numpy as np

from calmstream.estimators.plan.plan import Plan

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
