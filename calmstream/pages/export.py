"""Snapshots as files: CSV for spreadsheets, JSON lines for programs."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from itertools import product
from typing import Any, TextIO

import orjson

from consumer.subscribe.assembler import Snapshot
from estimators.wire.snapshot import MarginalRecord

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

    Args:
        snapshots: the snapshots.
        out: receives the text.
        marginal: attribute names of the only table to write; None for all.
    """
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    count = 0
    for snapshot in snapshots:
        count += 1
        for record in _records(snapshot, marginal):
            writer.writerows(_lines(snapshot, record))
    return count


def to_jsonl(snapshots: Iterable[Snapshot], out: TextIO, marginal: Sequence[str] | None) -> int:
    """Write one object per snapshot, with manifest and tables; return their number."""
    count = 0
    for snapshot in snapshots:
        count += 1
        tables = [_table(record) for record in _records(snapshot, marginal)]
        document = asdict(snapshot.manifest) | {"marginals": tables}
        out.write(orjson.dumps(document).decode() + "\n")
    return count


FORMATS: dict[str, Callable[[Iterable[Snapshot], TextIO, Sequence[str] | None], int]] = {
    "csv": to_csv,
    "jsonl": to_jsonl,
}


def _records(snapshot: Snapshot, marginal: Sequence[str] | None) -> list[MarginalRecord]:
    if not snapshot.marginals or marginal is None:
        return list(snapshot.marginals.values())
    return [snapshot.record(*marginal)]


def joined(texts: Iterable[str]) -> str:
    r"""Join texts with ``|``; a ``|`` or ``\`` in a text gets a ``\`` before it.

    Different cells therefore have different names, whatever their labels.
    """
    return "|".join(text.replace("\\", r"\\").replace("|", r"\|") for text in texts)


def _lines(snapshot: Snapshot, record: MarginalRecord) -> Iterable[tuple[object, ...]]:
    manifest = snapshot.manifest
    head = (
        f"{manifest.name}-{manifest.plan[:8]}",
        manifest.window,
        manifest.kind.value,
        manifest.start,
        manifest.end,
        record.reports,
        joined(record.attributes),
    )
    flags = " ".join(record.flags)
    for labels, value, error in zip(
        product(*record.labels), record.table, record.stderr, strict=True
    ):
        yield (*head, joined(labels), value, error, flags)


def _table(record: MarginalRecord) -> dict[str, Any]:
    fields = ("attributes", "labels", "table", "stderr", "noise_floor", "reports", "flags")
    return {name: getattr(record, name) for name in fields}
