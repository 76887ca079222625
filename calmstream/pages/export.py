"""Snapshots as files: JSON lines, and rows of CSV, Parquet or Arrow."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict
from typing import Any, BinaryIO, Self

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from calmstream.consumer.read.formats import harmless
from calmstream.consumer.sink.arrow_rows import RESULTS, STATISTICS, results_table, statistics_table
from calmstream.consumer.subscribe.assembler import Snapshot
from calmstream.estimators.wire.snapshot import MarginalRecord

_ROWS = 1 << 17
"""Number of cells that are written together."""

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
    with WRITERS[form](out, schema) as writer:
        for several in _together(sets):
            writer.write_table(table(namespace, several))


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


class _Csv:
    """Writes CSV: lists are joined, and a spreadsheet executes no text."""

    def __init__(self, out: BinaryIO, schema: pa.Schema) -> None:
        self._out = io.TextIOWrapper(out, encoding="utf-8", newline="", write_through=True)
        self._writer = csv.writer(self._out, lineterminator="\n")
        self._writer.writerow(map(harmless, schema.names))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._out.detach()

    def write_table(self, table: pa.Table) -> None:
        columns = [map(_text, column.to_pylist()) for column in table.columns]
        self._writer.writerows(zip(*columns, strict=True))


def _text(value: object) -> object:
    if isinstance(value, list):
        return harmless(joined(value))
    return harmless(value) if isinstance(value, str) else value


class _Lines:
    """Writes one JSON object a row."""

    def __init__(self, out: BinaryIO, _schema: pa.Schema) -> None:
        self._out = out

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is left to write."""

    def write_table(self, table: pa.Table) -> None:
        self._out.writelines(orjson.dumps(row) + b"\n" for row in table.to_pylist())


WRITERS: Mapping[str, Callable[[BinaryIO, pa.Schema], AbstractContextManager[Any]]] = {
    "csv": _Csv,
    "json": _Lines,
    "parquet": lambda out, schema: pq.ParquetWriter(out, schema, compression="zstd"),
    "arrow": pa.ipc.new_stream,
}
"""What writes tables of rows, by the name of the format."""


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


def _table(record: MarginalRecord) -> dict[str, Any]:
    table = {name: getattr(record, name) for name in _OF_TABLE}
    return table | ({"summaries": record.summaries} if record.summaries else {})
