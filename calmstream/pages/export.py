"""Snapshots as files: JSON lines, and rows of CSV, Parquet or Arrow."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any, BinaryIO

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from calmstream.consumer.read.formats import harmless
from calmstream.consumer.sink.arrow_rows import RESULTS, STATISTICS, results_table, statistics_table
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


Write = Callable[[pa.Table], object]


@contextmanager
def _csv(out: BinaryIO, schema: pa.Schema) -> Iterator[Write]:
    """Write CSV: lists are joined, and a spreadsheet executes no text."""
    text = io.TextIOWrapper(out, encoding="utf-8", newline="", write_through=True)
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(map(harmless, schema.names))

    def write(table: pa.Table) -> None:
        columns = [map(_text, column.to_pylist()) for column in table.columns]
        writer.writerows(zip(*columns, strict=True))

    yield write
    text.detach()


def _text(value: object) -> object:
    if isinstance(value, list):
        return harmless(joined(value))
    return harmless(value) if isinstance(value, str) else value


@contextmanager
def _lines(out: BinaryIO, _schema: pa.Schema) -> Iterator[Write]:
    yield lambda table: out.writelines(orjson.dumps(row) + b"\n" for row in table.to_pylist())


@contextmanager
def _parquet(out: BinaryIO, schema: pa.Schema) -> Iterator[Write]:
    with pq.ParquetWriter(out, schema, compression="zstd") as writer:
        yield writer.write_table


@contextmanager
def _arrow(out: BinaryIO, schema: pa.Schema) -> Iterator[Write]:
    with pa.ipc.new_stream(out, schema) as writer:
        yield writer.write_table


WRITERS = {"csv": _csv, "json": _lines, "parquet": _parquet, "arrow": _arrow}
"""What writes tables of rows, by the name of the format."""


def only(snapshot: Snapshot, marginal: Sequence[str] | None) -> Snapshot:
    """Return a snapshot with the only table that was asked for, if one was."""
    if marginal is None or not snapshot.marginals:
        return snapshot
    record = snapshot.record(*marginal)
    return Snapshot(snapshot.manifest, {record.attributes: record})


def joined(texts: Iterable[str]) -> str:
    """Join texts with ``|``, so that different cells have different names."""
    return "|".join(text.replace("\\", r"\\").replace("|", r"\|") for text in texts)


def _table(record: MarginalRecord) -> dict[str, Any]:
    table = {name: getattr(record, name) for name in _OF_TABLE}
    return table | ({"summaries": record.summaries} if record.summaries else {})
