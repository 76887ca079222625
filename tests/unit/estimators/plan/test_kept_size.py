"""The stated size of kept counts, against records of drawn windows."""

from __future__ import annotations

import numpy as np
import pytest

from calmstream.estimators.domain import Domain
from calmstream.estimators.plan import Plan
from calmstream.estimators.plan.kept_size import kept_window_bytes
from calmstream.estimators.tally import Tally
from calmstream.estimators.wire.counts import GroupCounts, counts_key, encode_counts
from tests.support.plans import draft, mixed_domain

BROKER_BYTES = 70
"""A record batch's header, shared by few records, and a record's own fields."""


def drawn(plan: Plan, group: int, windows: int, random: np.random.Generator) -> Tally:
    """Draw a tally of so many windows from random populations."""
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
