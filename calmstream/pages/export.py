"""Snapshots as files: CSV for spreadsheets, JSON lines for programs."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from itertools import product
from typing import Any, TextIO

import orjson

from calmstream.common.identity import plan_name
from calmstream.consumer.subscribe.assembler import Snapshot
from calmstream.consumer.subscribe.statistic_rows import statistic_rows
from calmstream.estimators.wire.snapshot import MarginalRecord

COLUMNS = (
    "plan",
    "window",
    "kind",
    "start",
    "end",
    "reports",
    "marginal",
    "cell",
    "proportion",
    "stderr",
    "flags",
)
"""Columns of the CSV form: one line per cell, the same columns for every plan."""


def to_csv(snapshots: Iterable[Snapshot], out: TextIO, marginal: Sequence[str] | None) -> int:
    """Write a header and one line per cell; return the number of snapshots.

    The columns ``marginal`` and ``cell`` have attribute names and labels, as `joined` writes them.
    ``reports`` is the number of reports about the marginal. Snapshots without tables have no line.
    """
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    count = 0
    for snapshot in snapshots:
        count += 1
        for record in records(snapshot, marginal):
            writer.writerows(_lines(snapshot, record))
    return count


STATISTICS_COLUMNS = (
    "plan", "window", "kind", "start", "end", "reports", "attributes", "given", "labels",
    "statistic", "value", "stderr", "low", "high", "unit", "flags",
)  # fmt: skip
"""Columns of the CSV form of statistics: one line for each."""


def statistics_to_csv(
    snapshots: Iterable[Snapshot], out: TextIO, marginal: Sequence[str] | None
) -> int:
    """Write a header and one line per statistic; return the number of snapshots.

    Names and labels are joined as in `to_csv`; unknown numbers are empty.
    """
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(STATISTICS_COLUMNS)
    count = 0
    for snapshot in snapshots:
        count += 1
        head = _head(snapshot)
        for row in statistic_rows(records(snapshot, marginal)):
            names = (joined(row.attributes), joined(row.given), joined(row.labels))
            numbers = (row.value, row.stderr, row.low, row.high)
            flags = " ".join(row.flags)
            writer.writerow([*head, row.reports, *names, row.statistic, *numbers, row.unit, flags])
    return count


def statistics_to_jsonl(
    snapshots: Iterable[Snapshot], out: TextIO, marginal: Sequence[str] | None
) -> int:
    """Write one object per statistic, with the columns of `statistics_to_csv`; lists stay lists."""
    count = 0
    for snapshot in snapshots:
        count += 1
        head = dict(zip(STATISTICS_COLUMNS, _head(snapshot), strict=False))
        rows = statistic_rows(records(snapshot, marginal))
        out.writelines(orjson.dumps(head | asdict(row)).decode() + "\n" for row in rows)
    return count


def to_jsonl(snapshots: Iterable[Snapshot], out: TextIO, marginal: Sequence[str] | None) -> int:
    """Write one object per snapshot, with manifest and tables; return their number."""
    count = 0
    for snapshot in snapshots:
        count += 1
        tables = [_table(record) for record in records(snapshot, marginal)]
        document = asdict(snapshot.manifest) | {"marginals": tables}
        out.write(orjson.dumps(document).decode() + "\n")
    return count


FORMATS: dict[str, Callable[[Iterable[Snapshot], TextIO, Sequence[str] | None], int]] = {
    "csv": to_csv,
    "jsonl": to_jsonl,
}
STATISTICS_FORMATS = {"csv": statistics_to_csv, "jsonl": statistics_to_jsonl}


def records(snapshot: Snapshot, marginal: Sequence[str] | None) -> list[MarginalRecord]:
    """Return the tables to write: all of a snapshot, or the only one that was asked for."""
    if not snapshot.marginals or marginal is None:
        return list(snapshot.marginals.values())
    return [snapshot.record(*marginal)]


def joined(texts: Iterable[str]) -> str:
    r"""Join texts with ``|``; a ``|`` or ``\`` in a text gets a ``\`` before it.

    Different cells therefore have different names, whatever their labels.
    """
    return "|".join(text.replace("\\", r"\\").replace("|", r"\|") for text in texts)


def _lines(snapshot: Snapshot, record: MarginalRecord) -> Iterable[tuple[object, ...]]:
    head = (*_head(snapshot), record.reports, joined(record.attributes))
    flags = " ".join(record.flags)
    for labels, value, error in zip(
        product(*record.labels), record.table, record.stderr, strict=True
    ):
        yield (*head, joined(labels), value, error, flags)


def _head(snapshot: Snapshot) -> tuple[object, ...]:
    """Return plan, window, kind, start and end."""
    manifest = snapshot.manifest
    plan = plan_name(manifest.name, manifest.plan)
    return (plan, manifest.window, manifest.kind.value, manifest.start, manifest.end)


def _table(record: MarginalRecord) -> dict[str, Any]:
    fields = ("attributes", "labels", "table", "stderr", "noise_floor", "reports", "flags")
    table = {name: getattr(record, name) for name in fields}
    return table | ({"summaries": record.summaries} if record.summaries else {})
