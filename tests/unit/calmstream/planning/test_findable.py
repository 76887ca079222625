"""The line of the printed plan about the changes that are found."""

from __future__ import annotations

from calmstream.estimators.domain import Attribute, Domain
from calmstream.estimators.plan import Plan
from calmstream.estimators.plan.request import Request
from calmstream.estimators.planning import draft
from calmstream.planning import findable


def plan(*sizes: int) -> Plan:
    domain = Domain(
        tuple(Attribute(f"a{i}", tuple(map(str, range(size)))) for i, size in enumerate(sizes))
    )
    found, _ = draft(
        "calm", Request(domain, "1", 1_000_000, 2), windows=1, name="p", purpose="p", owner="o",
        lineage="0" * 32, start=0, window=60,
    )  # fmt: skip
    return found


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
