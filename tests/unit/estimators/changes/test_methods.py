from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from benchmarks.changes.simulate import view_frequencies, windows
from calmstream.estimators.changes import compare
from calmstream.estimators.plan import Plan
from calmstream.planning import plan_page
from tests.support.plans import COLLECTED, draft, mixed_domain

DOMAIN = mixed_domain(3, 2, 2, 3)
USERS = 30_000
RECORDS = np.random.default_rng(1).integers(0, DOMAIN.shape(range(4)), (3000, 4)).astype(np.uint16)
PAIRS = set(combinations(range(4), 2))
UNTESTED: dict[str, set[tuple[int, ...]]] = {
    "rr-independent": PAIRS,
    "rr-clusters": PAIRS - {(0, 1)},
    "characters": {(i,) for i in range(4)},
}
"""Tables that these methods do not count, or not apart from other attributes."""


def planned(name: str) -> Plan:
    return draft(DOMAIN, "1", USERS, 2, name)[0]


@pytest.mark.parametrize("name", COLLECTED)
def test_every_published_table_has_a_test_or_a_reason(name: str) -> None:
    plan = planned(name)
    generator = np.random.default_rng(2)
    frequencies = view_frequencies(DOMAIN, plan.groups, RECORDS)
    one, other = (
        windows(DOMAIN, plan.groups, plan.epsilon, frequencies, USERS, 1, generator).source(0)
        for _ in range(2)
    )
    found = compare(one, other, plan.marginals).tables
    missing = {t.attributes for t in found if t.p is None}
    assert all(t.reason for t in found if t.p is None)
    assert missing == UNTESTED.get(name, set())
    assert min(t.p for t in found if t.p is not None) > 1e-6


@pytest.mark.parametrize("name", COLLECTED)
def test_every_plan_says_what_change_is_found(name: str) -> None:
    line = plan_page.change_line(planned(name))
    assert line is not None
    assert ("one attribute" in line) == (name != "characters")
    assert ("a pair" in line) == (name != "rr-independent")
