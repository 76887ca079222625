"""Means, quantiles, shares of ranges and rank correlations of any windows, from kept counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from calmstream.common.errors import InvalidInput
from calmstream.consumer.read.history import History
from calmstream.consumer.read.ranges import Windows
from calmstream.estimators.analysis.summary_rows import RANK, check, correlate, summarise
from calmstream.estimators.domain import Attribute, Domain
from calmstream.estimators.plan import Plan
from calmstream.estimators.wire.snapshot import Revision
from calmstream.estimators.wire.table_summary import TableSummary


@dataclass(frozen=True, slots=True, eq=False)
class Summary:
    """Statistics of an attribute, or the rank correlation of two, for some windows."""

    table: TableSummary
    windows: Windows
    reports: int
    revision: Revision
    plan: Plan

    def to_json(self) -> dict[str, Any]:
        return {
            "plan": self.plan.digest,
            **self.table.to_json(),
            "windows": [self.windows.to_json(self.plan)],
            "reports": self.reports,
            "revision": list(self.revision),
        }


def split(
    domain: Domain, attributes: Sequence[str], given: Sequence[str], statistics: Sequence[str]
) -> tuple[Attribute, ...]:
    domain.index(attributes)
    if left := [name for name in given if name not in attributes]:
        raise InvalidInput(f"given: {left[0]!r} is not among the attributes")
    about = [name for name in attributes if name not in given]
    found = tuple(domain.attributes[domain.index([name])[0]] for name in about)
    if RANK in statistics:
        if len(about) != 2 or given or tuple(statistics) != (RANK,):
            raise InvalidInput("summary: rank is asked alone, of two attributes, none given")
        return found
    if len(about) != 1:
        raise InvalidInput(
            f"summary: expected one attribute that is not given, got {', '.join(about) or 'none'}"
        )
    check(found[0], statistics)
    return found


def summary(
    history: History,
    attributes: Sequence[str],
    windows: str | Windows = "total",
    *,
    statistics: Sequence[str] = ("mean", "median"),
    given: Sequence[str] = (),
    group: str | Mapping[str, str] = "",
) -> Summary:
    """Return statistics of one ordered attribute, or the rank correlation of two."""
    plan = history.plan
    about = split(plan.domain, attributes, given, statistics)
    names = [*given, *(attribute.name for attribute in about)]
    counted = history.counted(windows)
    joint = counted.table(names, group)
    for attribute in about:
        if joint.labels[names.index(attribute.name)] != attribute.labels:
            raise InvalidInput(f"summary: the labels of {attribute.name!r} cannot be grouped")
    pair = len(about) == 2
    table = correlate(joint, *about) if pair else summarise(joint, about[0], statistics)
    flags = dict.fromkeys((*joint.flags, *counted.flags, *table.flags))
    table = replace(table, flags=tuple(flags))
    return Summary(table, counted.windows, joint.reports, counted.revision, plan)
