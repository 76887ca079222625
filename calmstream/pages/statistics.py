"""The statistics of published tables as lines for people."""

from __future__ import annotations

from collections.abc import Iterator

from calmstream.estimators.wire.snapshot import MarginalRecord
from calmstream.estimators.wire.table_summary import Statistic, TableStatistics, TableSummary

MAX_LINES = 12
"""Maximum number of labels of a given attribute that are shown."""

FLAGS = {
    "binned": "binned: the interval of a mean holds the ends of the bins too",
    "blurred": "blurred: quantiles of a grid are known to one step",
    "clamped": "clamped: values outside the edges count at the nearest edge",
}


def statistics_lines(record: MarginalRecord) -> list[str]:
    """Return one line for each row of the record's summaries, and one for each of their flags."""
    lines = [line for one in record.summaries for line in _lines(one)]
    flags = dict.fromkeys(flag for one in record.summaries for flag in one.flags)
    return [*lines, *(FLAGS[flag] for flag in flags if flag in FLAGS)]


def _lines(one: TableSummary) -> Iterator[str]:
    for row in one.rows[:MAX_LINES]:
        yield f"{_head(one, row)}: {', '.join(_text(s, one.unit) for s in row.statistics)}"
    if len(one.rows) > MAX_LINES:
        yield f"the first {MAX_LINES} of {len(one.rows):,} labels"


def _head(one: TableSummary, row: TableStatistics) -> str:
    name = " and ".join(one.attributes)
    if not one.given:
        return name
    given = ", ".join(f"{a} {b}" for a, b in zip(one.given, row.labels, strict=False))
    return f"{name} given {given}"


def _text(one: Statistic, unit: str) -> str:
    """Return a value with its interval, such as ``mean 12.5 ms (11.9 to 13.1)``."""
    name = "share" if one.share else one.statistic
    if one.value is None or one.low is None or one.high is None:
        return f"{name} unknown"
    if one.share:
        return f"{name} {100 * one.value:.4g} % ({100 * one.low:.4g} to {100 * one.high:.4g} %)"
    after = f" {unit}" if unit else ""
    return f"{name} {one.value:.4g}{after} ({one.low:.4g} to {one.high:.4g})"
