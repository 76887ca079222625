"""Converts a decoded piece of a log to the `Chunk` that readers return."""

from __future__ import annotations

import numpy as np

from calmstream.broker.record_batches.decode import Damaged, RecordColumns
from calmstream.broker.records import Chunk, Damage, Partition


def as_chunk(partition: Partition, piece: RecordColumns | Damaged) -> Chunk | None:
    """Return the records of a decoded piece of a log; None if it has no record."""
    if isinstance(piece, RecordColumns):
        columns = (piece.offset, piece.timestamp, piece.append_time)
        spans = (piece.key, piece.value, piece.headers)
        return Chunk(partition, piece.data, *columns, *spans) if len(piece.offset) else None
    size = len(piece.raw)
    return Chunk(
        partition,
        piece.raw,
        np.array([piece.last_offset], np.int64),
        np.array([piece.timestamp], np.int64),
        np.array([piece.append_time], np.bool_),
        np.array([[-1, -1]], np.int64),
        np.array([[0, size]], np.int64),
        np.array([[size, size]], np.int64),
        Damage(piece.first_offset, piece.records, piece.why),
    )
