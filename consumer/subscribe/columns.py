"""The columns of sets and of statistics, with the same names in files and in databases."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from calmstream.estimators.wire.snapshot import Manifest, MarginalRecord

OF_CELL: Mapping[str, Callable[[Manifest], Any]] = {
    "plan": lambda m: m.plan,
    "plan_name": lambda m: m.name,
    "window_number": lambda m: m.window,
    "kind": lambda m: m.kind.value,
    "window_start": lambda m: datetime.fromtimestamp(m.start, UTC),
    "window_end": lambda m: datetime.fromtimestamp(m.end, UTC),
    # One number that grows with every revision of the set.
    "revision": lambda m: sum(m.revision),
}
"""What a row of a cell says of its set, with the same names in a notebook, in files and in
databases, where it also says the output namespace."""

OF_SET: Mapping[str, Callable[[Manifest], Any]] = {
    **OF_CELL,
    "offsets": lambda m: list(m.revision),
    "reports": lambda m: m.reports,
    "rejected": lambda m: sum(m.rejected.values()),
    "method": lambda m: m.method,
    "epsilon": lambda m: m.epsilon,
}
"""Columns that a file or database adds to OF_CELL, from a set's manifest; ``offsets`` are the
terms of ``revision``. The output namespace stands beside them."""


def statistic_rows(tables: Iterable[MarginalRecord]) -> Iterator[dict[str, Any]]:
    """Yield the statistics of tables, with their columns as keys; None is an unknown number."""
    for table in tables:
        for summary in table.summaries:
            flags = [*table.flags, *summary.flags]
            for row in summary.rows:
                for one in row.statistics:
                    yield {
                        "attributes": list(summary.attributes),
                        "given": list(summary.given),
                        "labels": list(row.labels),
                        "statistic": one.statistic,
                        "value": one.value,
                        "stderr": one.stderr,
                        "low": one.low,
                        "high": one.high,
                        "unit": summary.unit,
                        "flags": flags,
                        "reports": table.reports,
                    }
