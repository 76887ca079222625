"""Snapshots as files: a JSON object for each, or rows in any format."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import Any, BinaryIO

import orjson

from calmstream.consumer.read.formats import WRITERS
from calmstream.consumer.subscribe.arrow_rows import (
    RESULTS,
    STATISTICS,
    results_table,
    statistics_table,
)
from calmstream.consumer.subscribe.assembler import Snapshot
from calmstream.estimators.wire.snapshot import MarginalRecord

_ROWS = 1 << 17  # number of cells that are written together

_OF_TABLE = ("attributes", "labels", "table", "stderr", "noise_floor", "reports", "flags")


def write_snapshots(sets: Iterable[Snapshot], out: BinaryIO) -> None:
    """Write one JSON object for each snapshot: its manifest, and its tables as ``marginals``."""
    for one in sets:
        tables = [_table(record) for record in one.marginals.values()]
        out.write(orjson.dumps(asdict(one.manifest) | {"marginals": tables}) + b"\n")


def write_rows(
    namespace: str,
    sets: Iterable[Snapshot],
    out: BinaryIO,
    form: str,
    *,
    statistics: bool = False,
) -> None:
    """Write one row for each cell, or statistic, with the columns of ``calmstream sink``."""
    schema, table = (STATISTICS, statistics_table) if statistics else (RESULTS, results_table)
    with WRITERS[form](out, schema) as write:
        for several in _together(sets):
            write(table(namespace, several))


def _together(sets: Iterable[Snapshot]) -> Iterator[list[Snapshot]]:
    waiting, rows = list[Snapshot](), 0
    for one in sets:
        waiting.append(one)
        rows += one.cells
        if rows >= _ROWS:
            yield waiting
            waiting, rows = [], 0
    if waiting:
        yield waiting


def only(snapshot: Snapshot, marginal: Sequence[str] | None) -> Snapshot:
    """Return a snapshot with the only table that was asked for, if one was."""
    if marginal is None or not snapshot.marginals:
        return snapshot
    record = snapshot.record(*marginal)
    return Snapshot(snapshot.manifest, {record.attributes: record})


def _table(record: MarginalRecord) -> dict[str, Any]:
    table = {name: getattr(record, name) for name in _OF_TABLE}
    return table | ({"summaries": record.summaries} if record.summaries else {})
