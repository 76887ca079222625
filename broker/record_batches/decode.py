"""Decodes the bytes of a fetch response into chunks of records and into damaged batches.

Neighbouring uncompressed batches with one leader epoch, a *run*, are decoded together in array
operations, which is much faster than batch by batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from calmstream.broker.record_batches.batch_header import (
    HEADER_BYTES,
    MAGIC,
    BatchHeader,
    CorruptBatch,
    batch_headers,
)
from calmstream.broker.record_batches.codecs import MAX_BYTES, NotDecompressible, decompress
from calmstream.broker.record_batches.record_fields import read_fields, record_spans
from calmstream.broker.records import Chunk, Damage, Integers, Partition, Record

MAX_RECORDS = 1 << 16
"""Maximum number of records in one batch; a batch with more is damaged."""

_RUN_RECORDS = 1 << 14
"""A run ends when it has this many records: enough for fast arrays, small enough for memory."""

# Reasons of damage that are found in the records.
_NOT_FILLED = "the stated records do not fill the batch"
_BAD_FIELD = "a record does not hold the fields that it states"


class Piece(NamedTuple):
    """A decoded part of a log: its records or a damaged batch, and the offset after it.

    There can be a gap between the last record and ``next_offset``.
    """

    chunk: Chunk | None
    next_offset: int
    leader_epoch: int


def decode_batches(partition: Partition, data: bytes, from_offset: int = 0) -> Iterator[Piece]:
    """Decode the bytes of one partition in a fetch response; drop records below ``from_offset``.

    Each batch is decoded completely before any of its records is yielded. Transaction markers are
    skipped; records of aborted transactions are yielded (isolation level ``read_uncommitted``).
    """
    run = _Run(partition, data, from_offset)
    headers = batch_headers(data)
    while True:
        try:
            batch = next(headers, None)
        except CorruptBatch:
            yield from run.flush()
            raise
        if batch is None:
            break
        if batch.last_offset < from_offset:
            continue
        # A run has one leader epoch, because a piece states only one.
        if run.full or run.leader_epoch not in (None, batch.leader_epoch):
            yield from run.flush()
        if batch.control:
            run.skip(batch)
        elif (fault := _fault(batch)) or batch.codec:
            yield from run.flush()
            yield _damaged(run, batch, fault) if fault else _decompressed(run, batch)
        elif not run.add(batch, batch.start + HEADER_BYTES, batch.end):
            yield from run.flush()
            yield _damaged(run, batch, _NOT_FILLED)
    yield from run.flush()


def _fault(batch: BatchHeader) -> str:
    if batch.magic != MAGIC:
        return f"record format {batch.magic}, expected {MAGIC}"
    if not 0 <= batch.records <= MAX_RECORDS:
        return f"a batch of {batch.records} records, at most {MAX_RECORDS} are read"
    if batch.end - batch.start > MAX_BYTES:
        return f"a batch of {batch.end - batch.start} bytes, at most {MAX_BYTES} are read"
    if batch.records > batch.last_offset - batch.first_offset + 1:
        return "more records than offsets"
    return ""


def _damaged(run: _Run, batch: BatchHeader, why: str) -> Piece:
    """Return a batch that cannot be decoded as one record, whose value is all bytes of it."""
    record = Record(
        run.partition,
        batch.last_offset,
        batch.max_timestamp,
        batch.append_time,
        None,
        run.data[batch.start : batch.end],
        damage=Damage(batch.first_offset, batch.records, why),
    )
    return Piece(Chunk.of([record]), batch.last_offset + 1, batch.leader_epoch)


def _decompressed(run: _Run, batch: BatchHeader) -> Piece:
    """Decode a compressed batch; it is never part of a run."""
    packed = memoryview(run.data)[batch.start + HEADER_BYTES : batch.end]
    try:
        plain = decompress(batch.codec, packed)
    except NotDecompressible as error:
        return _damaged(run, batch, str(error))
    alone = _Run(run.partition, plain, run.from_offset)
    if not alone.add(batch, 0, len(plain)):
        return _damaged(run, batch, _NOT_FILLED)
    (result,) = alone.flush()
    # A damaged batch has the bytes as received, not the decompressed ones.
    return _damaged(run, batch, _BAD_FIELD) if result.chunk and result.chunk.damage else result


class _Run:
    """Collects neighbouring batches of one buffer, to decode them together."""

    def __init__(self, partition: Partition, data: bytes, from_offset: int) -> None:
        self.partition = partition
        self.data = data
        self.from_offset = from_offset
        self._clear()

    def _clear(self) -> None:
        self._batches: list[BatchHeader] = []
        self._sizes: list[int] = []
        self._starts: list[int] = []
        self._ends: list[int] = []

    @property
    def full(self) -> bool:
        return len(self._starts) >= _RUN_RECORDS

    @property
    def leader_epoch(self) -> int | None:
        return self._batches[0].leader_epoch if self._batches else None

    def skip(self, batch: BatchHeader) -> None:
        """Add a batch without its records, so that ``next_offset`` lies after it."""
        self._batches.append(batch)
        self._sizes.append(0)

    def add(self, batch: BatchHeader, start: int, end: int) -> bool:
        """Add a batch whose records lie between two positions; return whether they fill it."""
        spans = record_spans(self.data, start, end, batch.records)
        if spans is None:
            return False
        self._batches.append(batch)
        self._sizes.append(batch.records)
        self._starts += spans[0]
        self._ends += spans[1]
        return True

    def flush(self) -> Iterator[Piece]:
        """Decode the run and clear it.

        A batch is damaged if a record of it cannot be decoded, or if the offsets of its records do
        not ascend within the range that its header states.
        """
        batches, sizes = self._batches, np.array(self._sizes, np.int64)
        if not batches:
            return
        fields = read_fields(self.data, self._starts, self._ends)
        self._clear()
        bounds = np.concatenate([[0], np.cumsum(sizes)]).tolist()

        def of_each(values: list[int]) -> Integers:
            """Return a value of each batch as one of each record."""
            return np.repeat(np.array(values, np.int64), sizes)

        owner = of_each(list(range(len(batches))))
        delta = fields.offset_delta
        # The largest offset of each batch, relative to its first one like ``delta``.
        bad = fields.bad | (delta < 0)
        bad |= delta > of_each([b.last_offset - b.first_offset for b in batches])
        bad[1:] |= (owner[1:] == owner[:-1]) & (delta[1:] <= delta[:-1])
        stamped = of_each([b.append_time for b in batches]).astype(np.bool_)
        time = np.where(
            stamped,
            of_each([b.max_timestamp for b in batches]),
            of_each([b.first_timestamp for b in batches]) + fields.time_delta,
        )
        records = Chunk(
            self.partition,
            self.data,
            of_each([b.first_offset for b in batches]) + delta,
            time,
            stamped,
            fields.key,
            fields.value,
            fields.headers,
        )
        first = 0
        # The run is cut at each damaged batch; the last cut is its end.
        for i in [*np.unique(owner[bad]).tolist(), len(batches)]:
            if i > first:
                chunk = records.part(bounds[first], bounds[i])
                below = int(np.searchsorted(chunk.offset, self.from_offset))
                kept = chunk.part(below, len(chunk))
                last = batches[i - 1]
                yield Piece(kept if len(kept) else None, last.last_offset + 1, last.leader_epoch)
            if i < len(batches):
                yield _damaged(self, batches[i], _BAD_FIELD)
            first = i + 1
