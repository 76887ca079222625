"""The line of the printed plan about the changes that are found."""

from __future__ import annotations

import numpy as np

from calmstream.estimators.plan import Plan
from calmstream.planning import plan_page
from tests.support.plans import draft, mixed_domain


def plan(*sizes: int) -> Plan:
    return draft(mixed_domain(*sizes), users=1_000_000)[0]


def test_the_line_has_the_median_of_each_size() -> None:
    one = plan(2, 3, 8)
    shifts = plan_page.smallest_changes(one)
    assert set(shifts) == {1, 2}
    median = f"{100 * np.median(shifts[2]):.2g}"
    assert f"{median} in a pair" in (plan_page.change_line(one) or "")


def test_tables_that_are_too_large_to_be_tested_are_left_out() -> None:
    assert len(plan_page.smallest_changes(plan(2, 40, 40))[2]) == 2
