"""Summaries of a published table as records hold them: means, quantiles, shares, correlations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from calmstream.estimators.wire import fields


@dataclass(frozen=True, slots=True)
class Statistic:
    """``mean``, ``median``, ``q0.9``, ``share:yes`` or ``rank``, with the ends of a 95 % interval.

    In the unit of the attribute; a share and a correlation have none. All None if nothing is known.
    """

    statistic: str
    value: float | None
    stderr: float | None
    low: float | None
    high: float | None

    @property
    def share(self) -> bool:
        return self.statistic.startswith("share:")


@dataclass(frozen=True, slots=True)
class TableStatistics:
    """The statistics within one combination of labels of the given attributes."""

    labels: tuple[str, ...]
    statistics: tuple[Statistic, ...]


@dataclass(frozen=True, slots=True)
class TableSummary:
    """Statistics of one published table. Flags: ``binned``, ``blurred``, ``clamped``.

    ``unit``: empty for labels, which count from 0, shares and correlations.
    """

    attributes: tuple[str, ...]
    unit: str
    given: tuple[str, ...]
    flags: tuple[str, ...]
    rows: tuple[TableStatistics, ...]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def _statistic_fits(value: Any) -> bool:
    """Accept a statistic whose four numbers are all known or all unknown."""
    if not _STATISTIC(value):
        return False
    return len({value[name] is None for name in _NUMBERS}) == 1


_NUMBERS = ("value", "stderr", "low", "high")
_STATISTIC = fields.fields(
    {"statistic": fields.text, **dict.fromkeys(_NUMBERS, fields.either(fields.null, fields.number))}
)
SUMMARY = fields.fields(
    {
        "attributes": fields.texts,
        "unit": fields.text,
        "given": fields.texts,
        "flags": fields.texts,
        "rows": fields.each(
            fields.fields({"labels": fields.texts, "statistics": fields.each(_statistic_fits)})
        ),
    }
)


def read_summary(body: Mapping[str, Any]) -> TableSummary:
    """Return a summary from a body that `SUMMARY` accepts."""
    return TableSummary(
        attributes=tuple(body["attributes"]),
        unit=body["unit"],
        given=tuple(body["given"]),
        flags=tuple(body["flags"]),
        rows=tuple(
            TableStatistics(tuple(row["labels"]), tuple(map(_statistic, row["statistics"])))
            for row in body["rows"]
        ),
    )


def _statistic(body: Mapping[str, Any]) -> Statistic:
    return Statistic(body["statistic"], *(body[name] for name in _NUMBERS))
