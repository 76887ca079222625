"""Means, quantiles, shares of ranges and rank correlations of any windows, from kept counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from calmstream.common.errors import InvalidInput
from calmstream.consumer.read.formats import window_range
from calmstream.consumer.read.history import History
from calmstream.consumer.read.ranges import Windows
from calmstream.estimators.analysis.summaries import Value
from calmstream.estimators.analysis.summary_rows import (
    RANK,
    SummaryRow,
    check,
    correlate,
    summarise,
)
from calmstream.estimators.domain import Attribute, Domain
from calmstream.estimators.kinds import Number
from calmstream.estimators.plan import Plan
from calmstream.estimators.wire.snapshot import Revision


@dataclass(frozen=True, slots=True, eq=False)
class Summary:
    """Statistics of an attribute, or the rank correlation of two; see also `Answer`.

    ``unit`` is empty for labels, which count from 0. There is a row for each combination of the
    given attributes. The flags are those of an answer and of `summary_rows`.
    """

    attributes: tuple[str, ...]
    unit: str
    given: tuple[str, ...]
    statistics: tuple[str, ...]
    rows: tuple[SummaryRow, ...]
    flags: tuple[str, ...]
    windows: Windows
    reports: int
    revision: Revision


def split(
    domain: Domain, attributes: Sequence[str], given: Sequence[str], statistics: Sequence[str]
) -> tuple[Attribute, ...]:
    """Return the attributes that statistics are about: those that are not given."""
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
    plan: Plan,
    attributes: Sequence[str],
    windows: str | Windows = "total",
    *,
    statistics: Sequence[str] = ("mean", "median"),
    given: Sequence[str] = (),
    group: str | Mapping[str, str] = "",
) -> Summary:
    """Return statistics of one ordered attribute, or the rank correlation of two."""
    about = split(plan.domain, attributes, given, statistics)
    names = [*given, *(attribute.name for attribute in about)]
    joint, flags, chosen, revision = history.table(names, windows, group)
    for attribute in about:
        if joint.labels[names.index(attribute.name)] != attribute.labels:
            raise InvalidInput(f"summary: the labels of {attribute.name!r} cannot be grouped")
    more: tuple[str, ...] = ()
    if len(about) == 2:
        rows = [SummaryRow((), (correlate(joint, *about),))]
    else:
        rows, more = summarise(joint, about[0], statistics)
    kind = about[0].kind
    return Summary(
        attributes=tuple(attribute.name for attribute in about),
        unit=kind.unit if isinstance(kind, Number) and len(about) == 1 else "",
        given=tuple(given),
        statistics=tuple(statistics),
        rows=tuple(rows),
        flags=tuple(dict.fromkeys((*joint.flags, *flags, *more))),
        windows=chosen,
        reports=joint.reports,
        revision=revision,
    )


def document(plan: Plan, found: Summary) -> dict[str, Any]:
    """Return a summary as one JSON object; unknown numbers are null."""
    return {
        "plan": plan.digest,
        "attributes": list(found.attributes),
        "unit": found.unit,
        "given": list(found.given),
        "rows": [
            {
                "labels": list(row.labels),
                "statistics": [
                    {"statistic": name, **_numbers(value)}
                    for name, value in zip(found.statistics, row.values, strict=True)
                ],
            }
            for row in found.rows
        ],
        "flags": list(found.flags),
        "windows": [window_range(plan, found.windows)],
        "reports": found.reports,
        "revision": list(found.revision),
    }


def _numbers(value: Value) -> dict[str, float]:
    """Return the numbers of a value; JSON writes NaN as null."""
    return {
        "value": value.value, "stderr": value.stderr, "low": value.low, "high": value.high,
    }  # fmt: skip
