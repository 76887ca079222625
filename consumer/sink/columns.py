"""The columns that describe a set, with the same names in every target."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from calmstream.consumer.sink.stored import StoredSet
from calmstream.estimators.wire.snapshot import MarginalRecord

OF_SET: Mapping[str, Callable[[StoredSet], Any]] = {
    "output_namespace": lambda s: s.output_namespace,
    "plan": lambda s: s.manifest.plan,
    "plan_name": lambda s: s.manifest.name,
    "window_number": lambda s: s.manifest.window,
    "kind": lambda s: s.manifest.kind.value,
    "window_start": lambda s: datetime.fromtimestamp(s.manifest.start, UTC),
    "window_end": lambda s: datetime.fromtimestamp(s.manifest.end, UTC),
    "revision": lambda s: s.revision,
    "offsets": lambda s: list(s.manifest.revision),
    "reports": lambda s: s.manifest.reports,
    "rejected": lambda s: s.rejected,
    "method": lambda s: s.manifest.method,
    "epsilon": lambda s: s.manifest.epsilon,
}
"""Columns of the table of sets and their values. The first eight are also columns of the cells."""


@dataclass(frozen=True, slots=True)
class StatisticRow:
    """One statistic, within the labels of the given attributes; see `table_summary`.

    Numbers are None where they are unknown. The flags are those of the table, then of the summary.
    """

    attributes: tuple[str, ...]
    given: tuple[str, ...]
    labels: tuple[str, ...]
    statistic: str
    value: float | None
    stderr: float | None
    low: float | None
    high: float | None
    unit: str
    flags: tuple[str, ...]
    reports: int


def statistic_rows(tables: Iterable[MarginalRecord]) -> Iterator[StatisticRow]:
    for table in tables:
        for summary in table.summaries:
            flags = (*table.flags, *summary.flags)
            for row in summary.rows:
                for one in row.statistics:
                    yield StatisticRow(
                        summary.attributes,
                        summary.given,
                        row.labels,
                        one.statistic,
                        one.value,
                        one.stderr,
                        one.low,
                        one.high,
                        summary.unit,
                        flags,
                        table.reports,
                    )
