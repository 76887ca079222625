"""The records of a log, as single objects and as columns; `transport` defines the terms."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

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

    ``why`` depends on the bytes in the log alone, so that every machine gives the same reason.
    ``records`` is their number as their sender stated it.
    """

    first_offset: int
    records: int
    why: str


@dataclass(frozen=True, slots=True)
class Record:
    """One record read from the log, or several records that could not be decoded.

    A broker also stores bytes that cannot be decoded, because it does not check compressed records.
    They are one record with ``damage``: the offset of the last of them, no key, and all their bytes
    as value. ``timestamp`` is in milliseconds since the epoch.
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
    """n records of one partition as columns, in the order of the log; n is at least 1."""

    partition: Partition
    data: bytes  # to which all positions refer
    offset: Integers  # (n,), int64, ascending
    timestamp: Integers  # (n,), int64, milliseconds since the epoch
    append_time: NDArray[np.bool_]  # (n,), whether the broker set each time
    key: Integers  # (n, 2), int64: start and end in ``data``, (-1, -1) if there is none
    value: Integers  # alike
    headers: Integers  # alike: the header section with its leading count
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
        data = self.data
        key, value, headers = (c[index].tolist() for c in (self.key, self.value, self.headers))
        section = data[headers[0] : headers[1]]
        return Record(
            self.partition,
            int(self.offset[index]),
            int(self.timestamp[index]),
            bool(self.append_time[index]),
            None if key[0] < 0 else data[key[0] : key[1]],
            None if value[0] < 0 else data[value[0] : value[1]],
            () if section == _NO_HEADERS else read_headers(section),
            self.damage,
        )

    def records(self) -> Iterator[Record]:
        return map(self.record, range(len(self)))

    @classmethod
    def of(cls, records: Sequence[Record]) -> Chunk:
        """Return records of one partition, in order of offsets, as a chunk; a damaged one alone."""
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


Headers = tuple[tuple[str, bytes], ...]
"""Names and contents of a record's headers. Unknown senders can use any names."""

MAX_HEADERS = 64
"""Maximum number of headers; a record with more is read as if it had none."""

# Shift of the fifth byte: a varint of 32 bits has at most five bytes of 7 bits.
_LAST_SHIFT = 28


def read_headers(data: bytes) -> Headers:
    """Return the headers of a section; none if it is damaged or has too many."""
    headers = []
    try:
        count, at = read_varint(data, 0)
        if not 0 <= count <= MAX_HEADERS:
            return ()
        for _ in range(count):
            name, at = _bytes(data, at)
            content, at = _bytes(data, at)
            if name is None:
                return ()
            headers.append((name.decode("utf-8", "replace"), content or b""))
    except ValueError:
        return ()
    return tuple(headers)


def write_headers(headers: Headers) -> bytes:
    out = bytearray(varint(len(headers)))
    for name, content in headers:
        encoded = name.encode()
        out += varint(len(encoded)) + encoded + varint(len(content)) + content
    return bytes(out)


def varint(number: int) -> bytes:
    """Return a non-negative number as a zigzag varint."""
    rest, out = 2 * number, bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def _bytes(data: bytes, at: int) -> tuple[bytes | None, int]:
    """Return bytes after their length, None for a negative length, and the position after them."""
    size, at = read_varint(data, at)
    if size < 0:
        return None, at
    if at + size > len(data):
        raise ValueError("cut off")
    return data[at : at + size], at + size


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """Return a zigzag varint and the position after it; ``record_fields`` explains the format."""
    value = shift = 0
    while True:
        if at >= len(data) or shift > _LAST_SHIFT:
            raise ValueError("cut off")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
        shift += 7
