"""The line of the printed plan about the changes that are found."""

from __future__ import annotations

from calmstream.estimators.plan import Plan
from calmstream.planning import findable
from tests.support.plans import draft, mixed_domain


def plan(*sizes: int) -> Plan:
    return draft(mixed_domain(*sizes), users=1_000_000)[0]


def test_the_line_has_the_median_and_the_range_of_each_size() -> None:
    one = plan(2, 3, 8)
    shifts = findable.smallest_changes(one)
    assert set(shifts) == {1, 2}
    assert shifts[1] == sorted(shifts[1])
    assert shifts[2][0] < shifts[2][-1]
    line = findable.line(one)
    assert line is not None
    low, middle, high = (f"{100 * shift:.2g}" for shift in shifts[2])
    assert f"{middle} ({low} to {high}) points in a table of 2 attributes" in line
    assert "not tested" not in line


def test_tables_that_are_too_large_to_be_tested_are_counted() -> None:
    one = plan(2, 40, 40)
    line = findable.line(one)
    assert line is not None
    assert line.endswith("; tables of more than 1,024 cells are not tested: 1")
