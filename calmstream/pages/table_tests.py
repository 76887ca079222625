"""What ``calmstream query`` says about the published tests of change of a table."""

from __future__ import annotations

from collections.abc import Sequence

from calmstream.consumer.read.ranges import Windows
from calmstream.estimators.changes.compare import FALSE_SHARE, benjamini_hochberg
from calmstream.estimators.domain import Attributes
from calmstream.estimators.plan import Plan
from calmstream.estimators.wire.changes import ChangesRecord, Family


def lines(plan: Plan, attributes: Sequence[str], record: ChangesRecord | None) -> list[str]:
    """Return a line for each family of tests; none for a table that is not published."""
    target = tuple(sorted(plan.domain.index(attributes)))
    if record is None or target not in plan.marginals:
        return []
    found = [_line(plan, target, one) for one in record.families if one.windows is not None]
    return list(dict.fromkeys(found))  # Before window 1 there is one window only.


def _line(plan: Plan, target: Attributes, family: Family) -> str:
    assert family.windows is not None
    start = f"against {Windows(*family.windows)}: "
    if family.reason:
        return f"{start}not tested: {family.reason}"
    place = plan.marginals.index(target)
    p, adjusted = family.p[place], benjamini_hochberg(family.p)[place]
    if p is None or adjusted is None:
        return f"{start}this table is not tested"
    verdict = "changed" if adjusted < FALSE_SHARE else "no change found"
    flags = f" ({', '.join(family.flags)})" if family.flags else ""
    return f"{start}{verdict}, p = {p:.2g}, adjusted {adjusted:.2g}{flags}"
