"""Decodes the bytes of a fetch response into columns of records and into damaged batches.

Neighbouring uncompressed batches with the same leader epoch are decoded together in array
operations, which is much faster than batch by batch. Such a sequence of batches is called a *run*.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calmstream.broker.record_batches.batch_header import (
    HEADER_BYTES,
    MAGIC,
    BatchHeader,
    CorruptBatch,
    batch_headers,
)
from calmstream.broker.record_batches.codecs import MAX_BYTES, NotDecompressible, decompress
from calmstream.broker.record_batches.record_fields import Fields, Flags, read_fields, record_spans

MAX_RECORDS = 1 << 16
"""Maximum number of records in one batch; a batch with more is damaged."""

_RUN_RECORDS = 1 << 14
"""A run ends when it has this many records: enough for fast arrays, small enough for memory."""

# Reasons of damage that are found in the records.
_NOT_FILLED = "the stated records do not fill the batch"
_BAD_FIELD = "a record does not hold the fields that it states"

Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Damaged:
    """A batch whose checksum is right but whose content cannot be decoded.

    Attributes:
        first_offset, last_offset: first and last offset that the batch covers.
        records: number of records that its header states.
        timestamp: largest time of the batch, milliseconds since the epoch.
        append_time: whether the broker set the time (LogAppendTime).
        why: the reason, in one line; it depends on the bytes alone.
        raw: all bytes of the batch.
        leader_epoch: leader epoch of the broker that appended the batch.
    """

    first_offset: int
    last_offset: int
    records: int
    timestamp: int
    append_time: bool
    why: str
    raw: bytes
    leader_epoch: int

    @property
    def next_offset(self) -> int:
        """The offset after the batch."""
        return self.last_offset + 1


@dataclass(frozen=True, slots=True, eq=False)
class RecordColumns:
    """n records in the order of the log, none of them below the offset that was requested.

    n is 0 if the batches contain no such record; then only ``next_offset`` is of use.

    Attributes:
        data: the bytes to which all positions refer.
        offset: offsets, shape (n,), int64, ascending.
        timestamp: times, shape (n,), int64, milliseconds since the epoch. If the broker set the
            time, all records of a batch have the batch's largest time.
        append_time: whether the broker set each time, shape (n,), bool.
        key, value: start and end in ``data``, shape (n, 2), int64; (-1, -1) if there is none.
        headers: start and end of the header section with its leading count, shape (n, 2), int64.
        next_offset: the offset after the last batch; there can be a gap after the last record.
        leader_epoch: leader epoch of the broker that appended the records.
    """

    data: bytes
    offset: Integers
    timestamp: Integers
    append_time: NDArray[np.bool_]
    key: Integers
    value: Integers
    headers: Integers
    next_offset: int
    leader_epoch: int


def decode_batches(data: bytes, from_offset: int = 0) -> Iterator[RecordColumns | Damaged]:
    """Decode the bytes of one partition in a fetch response.

    Each batch is decoded completely before any of its records is yielded. Transaction markers are
    skipped. Records of aborted transactions are yielded, as with Kafka's isolation level
    ``read_uncommitted``.
    """
    run = _Run(data, from_offset)
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
        # A run has one leader epoch, because Columns states only one.
        if run.full or run.leader_epoch not in (None, batch.leader_epoch):
            yield from run.flush()
        if batch.control:
            run.skip(batch)
        elif (fault := _fault(batch)) or batch.codec:
            yield from run.flush()
            yield _damaged(batch, data, fault) if fault else _decompressed(batch, data, from_offset)
        elif not run.add(batch, batch.start + HEADER_BYTES, batch.end):
            yield from run.flush()
            yield _damaged(batch, data, _NOT_FILLED)
    yield from run.flush()


def _fault(batch: BatchHeader) -> str:
    """Return why a batch is damaged, judged by its header alone; empty if it is not."""
    if batch.magic != MAGIC:
        return f"record format {batch.magic}, expected {MAGIC}"
    if not 0 <= batch.records <= MAX_RECORDS:
        return f"a batch of {batch.records} records, at most {MAX_RECORDS} are read"
    if batch.end - batch.start > MAX_BYTES:
        return f"a batch of {batch.end - batch.start} bytes, at most {MAX_BYTES} are read"
    if batch.records > batch.last_offset - batch.first_offset + 1:
        return "more records than offsets"
    return ""


def _damaged(batch: BatchHeader, data: bytes, why: str) -> Damaged:
    return Damaged(
        batch.first_offset,
        batch.last_offset,
        batch.records,
        batch.max_timestamp,
        batch.append_time,
        why,
        data[batch.start : batch.end],
        batch.leader_epoch,
    )


def _decompressed(batch: BatchHeader, data: bytes, from_offset: int) -> RecordColumns | Damaged:
    """Decode a compressed batch; it is never part of a run."""
    try:
        plain = decompress(batch.codec, memoryview(data)[batch.start + HEADER_BYTES : batch.end])
    except NotDecompressible as error:
        return _damaged(batch, data, str(error))
    run = _Run(plain, from_offset)
    if not run.add(batch, 0, len(plain)):
        return _damaged(batch, data, _NOT_FILLED)
    # A run of one batch gives one result. If that is a damaged batch, it is stated again with the
    # bytes as received, because the run contains only the decompressed records.
    (result,) = run.flush()
    return result if isinstance(result, RecordColumns) else _damaged(batch, data, result.why)


class _Run:
    """Collects neighbouring batches of one buffer, to decode them together."""

    def __init__(self, data: bytes, from_offset: int) -> None:
        self._data = data
        self._from = from_offset
        self._clear()

    def _clear(self) -> None:
        self._batches: list[BatchHeader] = []
        self._sizes: list[int] = []
        self._starts: list[int] = []
        self._ends: list[int] = []

    @property
    def full(self) -> bool:
        """Whether the run has reached its maximum number of records."""
        return len(self._starts) >= _RUN_RECORDS

    @property
    def leader_epoch(self) -> int | None:
        """The leader epoch that all batches of the run have; None if the run is empty."""
        return self._batches[0].leader_epoch if self._batches else None

    def skip(self, batch: BatchHeader) -> None:
        """Add a batch without its records, so that ``next_offset`` lies after it."""
        self._batches.append(batch)
        self._sizes.append(0)

    def add(self, batch: BatchHeader, start: int, end: int) -> bool:
        """Add a batch whose records lie between two positions of the buffer."""
        spans = record_spans(self._data, start, end, batch.records)
        if spans is None:
            return False
        self._batches.append(batch)
        self._sizes.append(batch.records)
        self._starts += spans[0]
        self._ends += spans[1]
        return True

    def flush(self) -> Iterator[RecordColumns | Damaged]:
        """Decode the run and clear it."""
        batches, sizes = self._batches, self._sizes
        if not batches:
            return
        table = _Table.decode(self._data, batches, sizes, self._starts, self._ends)
        self._clear()
        first = 0
        # The run is cut at each damaged batch; the last cut is its end.
        for i in [*np.flatnonzero(table.damaged).tolist(), len(batches)]:
            if i > first:
                yield table.columns(first, i, self._from)
            if i < len(batches):
                yield _damaged(batches[i], self._data, _BAD_FIELD)
            first = i + 1


@dataclass(frozen=True, slots=True, eq=False)
class _Table:
    """All decoded records of a run.

    Attributes:
        data: the buffer.
        batches: the headers of the batches.
        bounds: index of each batch's first record, and the number of records; shape (batches + 1,).
        fields: the fields of all records.
        offset: the offset of each record, shape (records,).
        damaged: whether each batch has a record that cannot be decoded, shape (batches,), bool.
    """

    data: bytes
    batches: list[BatchHeader]
    bounds: Integers
    fields: Fields
    offset: Integers
    damaged: Flags

    @classmethod
    def decode(
        cls,
        data: bytes,
        batches: list[BatchHeader],
        sizes: list[int],
        starts: list[int],
        ends: list[int],
    ) -> _Table:
        """Decode all records.

        A batch is damaged if a record of it cannot be decoded, or if the offsets of its records do
        not ascend within the range that its header states.
        """
        fields = read_fields(data, starts, ends)
        bounds = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
        # The index of each record's batch.
        owner = np.repeat(np.arange(len(batches)), sizes)
        first_offset = np.array([b.first_offset for b in batches], np.int64)
        # The largest offset of each batch, relative to its first one like ``delta``.
        max_delta = np.array([b.last_offset - b.first_offset for b in batches], np.int64)
        delta = fields.offset_delta
        bad = fields.bad | (delta < 0) | (delta > max_delta[owner])
        same_batch = owner[1:] == owner[:-1]
        bad[1:] |= same_batch & (delta[1:] <= delta[:-1])
        damaged = np.zeros(len(batches), np.bool_)
        damaged[owner[bad]] = True
        return cls(data, batches, bounds, fields, first_offset[owner] + delta, damaged)

    def columns(self, first: int, last: int, from_offset: int) -> RecordColumns:
        """Return the records of the batches ``first`` to ``last - 1``."""
        batches = self.batches[first:last]
        rows = slice(int(self.bounds[first]), int(self.bounds[last]))
        sizes = np.diff(self.bounds[first : last + 1])
        append_time = np.repeat(np.array([b.append_time for b in batches], np.bool_), sizes)
        max_timestamp = np.repeat(np.array([b.max_timestamp for b in batches], np.int64), sizes)
        first_timestamp = np.repeat(np.array([b.first_timestamp for b in batches], np.int64), sizes)
        f = self.fields
        time = np.where(append_time, max_timestamp, first_timestamp + f.time_delta[rows])
        wanted = self.offset[rows] >= from_offset
        kept = slice(None) if wanted.all() else np.flatnonzero(wanted)  # a slice copies nothing

        def spans(start: Integers, end: Integers) -> Integers:
            return np.stack([start[rows], end[rows]], axis=1)[kept]

        return RecordColumns(
            self.data,
            self.offset[rows][kept],
            time[kept],
            append_time[kept],
            spans(f.key_start, f.key_end),
            spans(f.value_start, f.value_end),
            spans(f.headers_start, f.headers_end),
            next_offset=batches[-1].last_offset + 1,
            leader_epoch=batches[-1].leader_epoch,
        )
