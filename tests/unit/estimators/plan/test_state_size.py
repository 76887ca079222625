"""Check a plan's upper bound on the size of a state record against the largest records."""

from __future__ import annotations

import numpy as np
import pytest

from calmstream.common.errors import Reason
from calmstream.estimators.plan import Plan
from calmstream.estimators.plan.state_size import HEADROOM
from calmstream.estimators.tally import Tally
from calmstream.estimators.wire.state import (
    ClosedWindow,
    PartitionState,
    WindowCount,
    encode_closed,
    encode_state,
)
from tests.support.plans import draft, mixed_domain

ASKED = [
    ("calm", 6, {}),
    ("inp-ht", 6, {}),
    ("marg-rr", 6, {}),
    ("rr-ind-joint", 6, {}),
    ("rr-joint", 2, {}),
    ("lopub", 6, {}),
    ("lopub", 3, {"hashes": 16}),
]


def full(plan: Plan, group: int, windows: int) -> WindowCount:
    """Return the largest possible state: maximal counters, and every reason of rejection."""
    mechanism, views = plan.mechanisms[group], len(plan.groups[group].views)
    n = HEADROOM * plan.users * windows
    counts = np.full((views, mechanism.width), n * mechanism.largest_count, np.int64)
    return WindowCount(Tally(np.full(views, n, np.int64), counts), dict.fromkeys(Reason, 2**63 - 1))


@pytest.mark.parametrize(("method", "d", "parameters"), ASKED)
@pytest.mark.parametrize("users", [1, 10_000, 10**9])
def test_no_record_is_larger_than_the_plan_states(
    method: str, d: int, parameters: dict[str, object], users: int
) -> None:
    domain = mixed_domain(*[2] * (d - 1), 2 if method in ("inp-ht", "marg-rr") else 5)
    plan, _ = draft(domain, "4", users, 2, method, parameters, windows=20_000, grace=130)
    largest, reports = 0, 2**63 - 1
    for group in range(len(plan.groups)):
        total, one = full(plan, group, plan.windows), full(plan, group, 1)
        open_windows = {19_990 + w: one for w in range(2 + -(-(plan.grace + plan.skew) // 60))}
        state = PartitionState(
            "A" * 22, reports, reports, 20_000, reports, reports, total, open_windows
        )
        largest = max(largest, len(encode_state(plan, state)))
        closed = ClosedWindow(19_999, reports, one, total)
        assert len(encode_closed(plan, closed)) <= plan.state_record_bytes
    assert 0.5 * plan.state_record_bytes < largest <= plan.state_record_bytes
