"""Headers of record batches: position and header fields of each batch of a fetch."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

import crc32c

MAGIC = 2
"""Version of the format. Smaller ones have another layout; brokers store none since Kafka 3.0."""

_PREFIX = struct.Struct(">qi")
_HEADER = struct.Struct(">qiibIhiqqqhii")
_LEGACY = struct.Struct(">qiIbbq")
_MAGIC_AT = 16
_CRC_FROM = 21

_CODEC_MASK = 0x07
_APPEND_TIME_MASK = 0x08
_CONTROL_MASK = 0x20

HEADER_BYTES = _HEADER.size


class CorruptBatch(Exception):  # noqa: N818 - a fault of the disk or the network
    """A checksum does not match: the bytes are not those that the broker received."""


class BatchHeader(NamedTuple):
    """One batch of a fetch.

    Attributes:
        start, end: its position in the buffer, header included.
        first_offset, last_offset: the offsets that it covers.
        codec: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd; others do not exist.
        append_time: whether the broker set the time.
        control: a transaction marker, not data.
        first_timestamp: base of its records' times, milliseconds since the epoch.
        max_timestamp: with ``append_time`` the time of all its records.
        records: how many, as stated.
        magic: 2; smaller ones are of an older format.
        leader_epoch: of the broker that appended it; -1 where it is not stated.
    """

    start: int
    end: int
    first_offset: int
    last_offset: int
    codec: int
    append_time: bool
    control: bool
    first_timestamp: int
    max_timestamp: int
    records: int
    magic: int
    leader_epoch: int


def batch_headers(data: bytes) -> Iterator[BatchHeader]:
    """Headers of all whole batches, in order; a batch cut off at the end is left out.

    Raises:
        CorruptBatch: a checksum does not match, or a length cannot be. Batches before it were
            yielded.
    """
    at = 0
    while at + _MAGIC_AT < len(data):
        offset, length = _PREFIX.unpack_from(data, at)
        end = at + _PREFIX.size + length
        if end > len(data):
            return
        if end <= at + _MAGIC_AT:
            raise CorruptBatch(f"the batch at offset {offset} has {length} bytes")
        magic = data[at + _MAGIC_AT]
        yield _legacy(data, at, end) if magic < MAGIC else _current(data, at, end)
        at = end


def _current(data: bytes, at: int, end: int) -> BatchHeader:
    if end - at < HEADER_BYTES:
        raise CorruptBatch(f"a batch has {end - at} bytes, its header {HEADER_BYTES}")
    base, _, epoch, magic, checksum, attributes, delta, first, largest, _, _, _, count = (
        _HEADER.unpack_from(data, at)
    )
    if crc32c.crc32c(memoryview(data)[at + _CRC_FROM : end]) != checksum:
        raise CorruptBatch(f"the checksum of the batch at offset {base} does not match")
    return BatchHeader(
        start=at,
        end=end,
        first_offset=base,
        last_offset=base + max(delta, 0),
        codec=attributes & _CODEC_MASK,
        append_time=bool(attributes & _APPEND_TIME_MASK),
        control=bool(attributes & _CONTROL_MASK),
        first_timestamp=first,
        max_timestamp=largest,
        records=count,
        magic=magic,
        leader_epoch=epoch,
    )


def _legacy(data: bytes, at: int, end: int) -> BatchHeader:
    """A message of magic 0 or 1, as far as it can be skipped: magic 0 has no time."""
    if end - at < _LEGACY.size:
        raise CorruptBatch(f"a message has {end - at} bytes, its header {_LEGACY.size}")
    offset, _, _, magic, attributes, time = _LEGACY.unpack_from(data, at)
    return BatchHeader(
        start=at,
        end=end,
        first_offset=offset,
        last_offset=offset,
        codec=attributes & _CODEC_MASK,
        append_time=magic == 0 or bool(attributes & _APPEND_TIME_MASK),
        control=False,
        first_timestamp=0,
        max_timestamp=time if magic == 1 else 0,
        records=1,
        magic=magic,
        leader_epoch=-1,
    )
