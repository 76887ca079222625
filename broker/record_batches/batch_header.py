"""Finds the record batches in the bytes of a fetch response and reads their headers."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

import crc32c

MAGIC = 2
"""Version of the batch format. Smaller versions have another layout; brokers since Kafka 3.0 do not
store them."""

# First offset and length, with which every version of the format begins.
_PREFIX = struct.Struct(">qi")
# The whole header of version 2, in the order of KIP-98.
_HEADER = struct.Struct(">qiibIhiqqqhii")
# Position of the version byte, and the position from which the checksum covers the bytes.
_MAGIC_AT = 16
_CRC_FROM = 21

# Bits of the field "attributes".
_CODEC_MASK = 0x07
_APPEND_TIME_MASK = 0x08
_CONTROL_MASK = 0x20

HEADER_BYTES = _HEADER.size


class CorruptBatch(Exception):  # noqa: N818 - a fault of the disk or the network
    """The checksum or the length of a batch is wrong: these are not the bytes that were sent."""


class BatchHeader(NamedTuple):
    """Position, header included, and header fields of one batch; times in milliseconds.

    Each record's time is relative to ``first_timestamp``; with ``append_time`` it is
    ``max_timestamp``. ``control`` marks a transaction marker, without data. ``records`` is what the
    sender states. ``leader_epoch`` is -1 if it is not stated.
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
    """Yield the headers of all batches, in order; an incomplete last one is left out."""
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
    """Return what is needed to skip a message of version 0 or 1, which has one offset."""
    (offset, _), magic = _PREFIX.unpack_from(data, at), data[at + _MAGIC_AT]
    return BatchHeader(
        start=at,
        end=end,
        first_offset=offset,
        last_offset=offset,
        codec=0,
        append_time=True,  # the format states none; False would halt the counting
        control=False,
        first_timestamp=0,
        max_timestamp=0,
        records=1,
        magic=magic,
        leader_epoch=-1,
    )
