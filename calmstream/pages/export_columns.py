"""Snapshots as Parquet and Arrow files, with the columns that ``calmstream sink`` stores."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from calmstream.consumer.sink.arrow_rows import RESULTS, STATISTICS, results_table, statistics_table
from calmstream.consumer.sink.stored import StoredSet
from calmstream.consumer.subscribe.assembler import Snapshot
from calmstream.pages.export import records

# Number of cells that are written together.
_ROWS = 1 << 17


def to_parquet(
    snapshots: Iterable[Snapshot], out: BinaryIO, marginal: Sequence[str] | None, namespace: str
) -> int:
    """Write one row for each cell; return the number of snapshots."""
    writer = pq.ParquetWriter(out, RESULTS, compression="zstd")
    return _written(writer, results_table, _sets(snapshots, marginal, namespace))


def to_arrow(
    snapshots: Iterable[Snapshot], out: BinaryIO, marginal: Sequence[str] | None, namespace: str
) -> int:
    """Write the same rows as an Arrow stream."""
    writer = pa.ipc.new_stream(out, RESULTS)
    return _written(writer, results_table, _sets(snapshots, marginal, namespace))


def statistics_to_parquet(
    snapshots: Iterable[Snapshot], out: BinaryIO, marginal: Sequence[str] | None, namespace: str
) -> int:
    """Write one row for each statistic; otherwise as `to_parquet`."""
    writer = pq.ParquetWriter(out, STATISTICS, compression="zstd")
    return _written(writer, statistics_table, _sets(snapshots, marginal, namespace))


def statistics_to_arrow(
    snapshots: Iterable[Snapshot], out: BinaryIO, marginal: Sequence[str] | None, namespace: str
) -> int:
    """Write the same rows as an Arrow stream."""
    writer = pa.ipc.new_stream(out, STATISTICS)
    return _written(writer, statistics_table, _sets(snapshots, marginal, namespace))


Write = Callable[[Iterable[Snapshot], BinaryIO, Sequence[str] | None, str], int]

BINARY_FORMATS: dict[str, Write] = {"arrow": to_arrow, "parquet": to_parquet}
BINARY_STATISTICS: dict[str, Write] = {
    "arrow": statistics_to_arrow,
    "parquet": statistics_to_parquet,
}


def _sets(
    snapshots: Iterable[Snapshot], marginal: Sequence[str] | None, namespace: str
) -> Iterator[StoredSet]:
    for snapshot in snapshots:
        yield StoredSet(namespace, snapshot.manifest, tuple(records(snapshot, marginal)))


def _written(
    writer: AbstractContextManager[Any],
    table: Callable[[Sequence[StoredSet]], pa.Table],
    sets: Iterable[StoredSet],
) -> int:
    count, waiting, rows = 0, list[StoredSet](), 0
    with writer as open_writer:
        for one in sets:
            count += 1
            waiting.append(one)
            rows += one.rows
            if rows >= _ROWS:
                open_writer.write_table(table(waiting))
                waiting, rows = [], 0
        if rows:
            open_writer.write_table(table(waiting))
    return count
