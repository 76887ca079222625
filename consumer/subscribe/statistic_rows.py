"""The statistics of published tables as flat rows, one for each statistic and label."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from calmstream.estimators.wire.snapshot import MarginalRecord


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
