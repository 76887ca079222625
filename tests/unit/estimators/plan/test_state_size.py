from __future__ import annotations

import numpy as np
import pytest

from calmstream.common.errors import Reason
from calmstream.estimators.domain import Domain
from calmstream.estimators.plan import Plan
from calmstream.estimators.plan.state_size import HEADROOM, kept_window_bytes, record_bytes
from calmstream.estimators.tally import Tally
from calmstream.estimators.wire.counts import GroupCounts, counts_key, encode_counts
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
        assert len(encode_closed(plan, closed)) <= record_bytes(plan)
    assert 0.5 * record_bytes(plan) < largest <= record_bytes(plan)


BROKER_BYTES = 70  # a record batch's header, shared by few records, and a record's own fields


def drawn(plan: Plan, group: int, windows: int, random: np.random.Generator) -> Tally:
    mechanism, shares = plan.mechanisms[group], plan.groups[group].shares
    n = random.poisson([windows * plan.users * share / plan.total_share for share in shares])
    tables = random.dirichlet(np.full(mechanism.cells, 0.5), len(n))
    found = [
        mechanism.draw_tally(random.multinomial(reports, table), random)
        for reports, table in zip(n, tables, strict=True)
    ]
    return Tally(n, np.stack(found))


@pytest.mark.parametrize(
    ("domain", "users", "method"),
    [
        (Domain.binary(8), 10_000, "noise-aware"),
        (Domain.binary(16), 100_000, "noise-aware"),
        (Domain.binary(16), 100_000, "calm"),
        (Domain.binary(32), 3_000, "noise-aware"),
        (mixed_domain(9, 8, 16, 16, 7, 14, 6, 5, 2, 42, 2), 45_000, "noise-aware"),
    ],
)
def test_the_estimate_is_within_a_fifth(domain: Domain, users: int, method: str) -> None:
    plan, _ = draft(domain, users=users, method=method, windows=720)
    random = np.random.default_rng(11)
    size = 0
    for group in range(len(plan.groups)):
        window, total = drawn(plan, group, 1, random), drawn(plan, group, 360, random)
        value = encode_counts(plan, GroupCounts(360, group, (1 << 20,), window, total, False))
        size += len(value) + len(counts_key(360, group)) + BROKER_BYTES
    assert kept_window_bytes(plan) == pytest.approx(size, rel=0.2)
