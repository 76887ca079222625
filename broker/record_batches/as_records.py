"""Converts decoded columns to the :class:`broker.transport.Record` objects that readers return."""

from __future__ import annotations

from collections.abc import Iterator

from broker.record_batches.decode import Columns, Damaged
from broker.record_batches.record_headers import read_headers
from broker.transport import Damage, Partition, Record

# The header section of a record without headers: the number 0.
_NO_HEADERS = b"\x00"


def as_records(partition: Partition, piece: Columns | Damaged) -> Iterator[Record]:
    """Yield the records of a decoded piece of a log; a damaged batch gives one record.

    Args:
        partition: the partition of the log.
        piece: one result of :func:`broker.record_batches.decode.decode_batches`.
    """
    if isinstance(piece, Damaged):
        damage = Damage(piece.first_offset, piece.records, piece.why)
        yield Record(
            partition,
            piece.last_offset,
            piece.timestamp,
            piece.append_time,
            None,
            piece.raw,
            damage=damage,
        )
        return
    data = piece.data
    for offset, time, stamped, (k0, k1), (v0, v1), (h0, h1) in zip(
        piece.offset.tolist(),
        piece.timestamp.tolist(),
        piece.append_time.tolist(),
        piece.key.tolist(),
        piece.value.tolist(),
        piece.headers.tolist(),
        strict=True,
    ):
        yield Record(
            partition,
            offset,
            time,
            stamped,
            None if k0 < 0 else data[k0:k1],
            None if v0 < 0 else data[v0:v1],
            () if data[h0:h1] == _NO_HEADERS else read_headers(data[h0:h1]),
        )
