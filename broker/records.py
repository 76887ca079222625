"""The records of a log, as single objects and as columns; `transport` defines the terms."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from calmstream.broker.record_headers import Headers, read_headers, write_headers

__all__ = ["Chunk", "Damage", "Headers", "Partition", "Record"]

Integers = NDArray[np.int64]

# The header section of a record without headers: the number 0.
_NO_HEADERS = b"\x00"


class Partition(NamedTuple):
    """One partition of a topic."""

    topic: str
    number: int

    def __str__(self) -> str:
        return f"{self.topic}[{self.number}]"


@dataclass(frozen=True, slots=True)
class Damage:
    """Why some records of the log could not be decoded.

    Attributes:
        first_offset: offset of the first of these records.
        records: number of these records, as their sender stated it.
        why: the reason, in one line. It depends on the bytes in the log alone, so that every
            machine that reads them gives the same reason.
    """

    first_offset: int
    records: int
    why: str


@dataclass(frozen=True, slots=True)
class Record:
    """One record read from the log, or several records that could not be decoded.

    A broker also stores bytes that cannot be decoded, because it does not check compressed records.
    They are returned as one record with ``damage``, so that a reader can skip them.

    Attributes:
        partition: the partition that holds the record.
        offset: the record's offset; with damage the offset of the last damaged record.
        timestamp: milliseconds since the epoch.
        append_time: True if the broker set the timestamp (LogAppendTime), False if the sender did.
        key: the key's bytes or None; always None with damage.
        value: the value's bytes, or None for a tombstone; with damage the undecodable bytes.
        headers: the record's headers in their order; empty if they cannot be decoded.
        damage: None for a record that was decoded.
    """

    partition: Partition
    offset: int
    timestamp: int
    append_time: bool
    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    damage: Damage | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Chunk:
    """n records of one partition as columns, in the order of the log; n is at least 1.

    Attributes:
        partition: the partition that holds the records.
        data: the bytes to which all positions refer.
        offset: offsets, shape (n,), int64, ascending.
        timestamp: times, shape (n,), int64, milliseconds since the epoch.
        append_time: whether the broker set each time, shape (n,), bool.
        key, value: start and end in ``data``, shape (n, 2), int64; (-1, -1) if there is none.
        headers: start and end of the header section with its leading count, shape (n, 2), int64.
        damage: None for records that were decoded; otherwise the chunk has one record, as
            :class:`Record` describes it.
    """

    partition: Partition
    data: bytes
    offset: Integers
    timestamp: Integers
    append_time: NDArray[np.bool_]
    key: Integers
    value: Integers
    headers: Integers
    damage: Damage | None = None

    def __len__(self) -> int:
        return len(self.offset)

    @property
    def size(self) -> int:
        return int((self.key[:, 1] - self.key[:, 0] + self.value[:, 1] - self.value[:, 0]).sum())

    def part(self, first: int, last: int) -> Chunk:
        """Return the records from index ``first`` up to, not including, ``last``; no copy."""
        if first == 0 and last >= len(self):
            return self
        cut = slice(first, last)
        return replace(
            self,
            offset=self.offset[cut],
            timestamp=self.timestamp[cut],
            append_time=self.append_time[cut],
            key=self.key[cut],
            value=self.value[cut],
            headers=self.headers[cut],
        )

    def record(self, index: int) -> Record:
        spans = (self.key[index], self.value[index], self.headers[index])
        return self._record(
            int(self.offset[index]),
            int(self.timestamp[index]),
            bool(self.append_time[index]),
            *(span.tolist() for span in spans),
        )

    def records(self) -> Iterator[Record]:
        for columns in zip(
            self.offset.tolist(),
            self.timestamp.tolist(),
            self.append_time.tolist(),
            self.key.tolist(),
            self.value.tolist(),
            self.headers.tolist(),
            strict=True,
        ):
            yield self._record(*columns)

    def _record(
        self,
        offset: int,
        time: int,
        stamped: bool,
        key: Sequence[int],
        value: Sequence[int],
        headers: Sequence[int],
    ) -> Record:
        data = self.data
        section = data[headers[0] : headers[1]]
        return Record(
            self.partition,
            offset,
            time,
            stamped,
            None if key[0] < 0 else data[key[0] : key[1]],
            None if value[0] < 0 else data[value[0] : value[1]],
            () if section == _NO_HEADERS else read_headers(section),
            self.damage,
        )

    @classmethod
    def of(cls, records: Sequence[Record]) -> Chunk:
        """Return records as a chunk.

        Args:
            records: at least one, of one partition, with ascending offsets; a damaged record alone.
        """
        spans, parts, at = [], [], 0
        for record in records:
            for content in (record.key, record.value, write_headers(record.headers)):
                if content is None:
                    spans.append((-1, -1))
                else:
                    parts.append(content)
                    spans.append((at, at := at + len(content)))
        positions = np.array(spans, np.int64).reshape(-1, 3, 2)
        return cls(
            records[0].partition,
            b"".join(parts),
            np.array([record.offset for record in records], np.int64),
            np.array([record.timestamp for record in records], np.int64),
            np.array([record.append_time for record in records], np.bool_),
            positions[:, 0],
            positions[:, 1],
            positions[:, 2],
            records[0].damage,
        )


def in_chunks(records: Sequence[Record]) -> list[Chunk]:
    """Return records as chunks; a chunk ends where the partition changes or a record is damaged."""
    chunks: list[Chunk] = []
    run: list[Record] = []
    for record in records:
        if run and (record.damage or run[-1].damage or record.partition != run[-1].partition):
            chunks.append(Chunk.of(run))
            run = []
        run.append(record)
    return [*chunks, Chunk.of(run)] if run else chunks
