"""Read a partition from a broker's files, without a client and without the product.

The format is Kafka's record batch of magic 2. The broker may write at the same time: an incomplete
batch at the end is left for the next reading.
"""

from __future__ import annotations

import struct
import zlib
from collections import deque
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import cramjam
import lz4.frame

from tests.support.batch_reading import Read, slow_reading
from tests.support.batches import APPEND_TIME, CONTROL, GZIP, LZ4, SNAPPY

MAX_BYTES = 32 << 20  # largest decompressed size of a record batch; a larger one counts as damaged
MAX_RECORDS = 1 << 16  # largest number of records of a record batch

_PREFIX = struct.Struct(">qi")
_HEADER = struct.Struct(">ibIhiqqqhii")
_JAVA_SNAPPY = b"\x82SNAPPY\x00"
_CODEC = 0x07


class Stored(NamedTuple):
    """One record, or a batch that cannot be decoded; then ``offset`` is its last offset.

    ``timestamp`` is in milliseconds; the broker set it where ``append_time``.
    """

    offset: int
    timestamp: int
    append_time: bool
    key: bytes | None
    value: bytes | None
    rest: bytes = b""
    damaged: bool = False


def stored(data: Path, topic: str, number: int, newest: int | None = None) -> Iterator[Stored]:
    batches: Iterable[Batch] = _batches(data / f"{topic}-{number}")
    for batch in batches if newest is None else deque(batches, newest):
        yield from _records(*batch)


def log_end(data: Path, topic: str, number: int) -> int:
    """Return the offset after the last complete batch."""
    last = deque(_batches(data / f"{topic}-{number}"), 1)
    return last[0][0] + last[0][1][4] + 1 if last else 0


Batch = tuple[int, tuple[int, ...], memoryview]
"""First offset, fields of the header from the leader's epoch on, payload."""


def _batches(folder: Path) -> Iterator[Batch]:
    for path in sorted(folder.glob("*.log")):
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            continue  # the cleaner has just replaced it
        yield from _split(memoryview(content))


def _split(content: memoryview) -> Iterator[Batch]:
    at = 0
    while at + _PREFIX.size + _HEADER.size <= len(content):
        first, length = _PREFIX.unpack_from(content, at)
        end = at + _PREFIX.size + length
        if length < _HEADER.size or end > len(content):
            return
        header = _HEADER.unpack_from(content, at + _PREFIX.size)
        yield first, header, content[at + _PREFIX.size + _HEADER.size : end]
        at = end


def _records(first: int, header: tuple[int, ...], payload: memoryview) -> Iterator[Stored]:
    _, _, _, attributes, last, first_time, largest, _, _, _, count = header
    if attributes & CONTROL:
        return
    stamped = bool(attributes & APPEND_TIME)
    rows = None
    if 0 <= count <= MAX_RECORDS:
        rows = _rows(attributes & _CODEC, bytes(payload), count, last + 1)
    if rows is None:
        yield Stored(first + last, largest, stamped, None, None, damaged=True)
        return
    for delta, time, key, value, rest in rows:
        when = largest if stamped else first_time + time
        yield Stored(first + delta, when, stamped, key, value, rest)


def _rows(codec: int, payload: bytes, count: int, offsets: int) -> list[Read] | None:
    plain = payload if codec == 0 else _expanded(codec, payload)
    return None if plain is None else slow_reading(plain, count, offsets)


# A bomb is sent again and again, byte for byte.
@lru_cache(maxsize=64)
def _expanded(codec: int, payload: bytes) -> bytes | None:
    """Decompress at most ``MAX_BYTES`` bytes; None for more, and for bytes of another codec."""
    try:
        plain = _plain(codec, payload)
    except (zlib.error, RuntimeError, ValueError, cramjam.DecompressionError):
        return None
    return plain if len(plain) <= MAX_BYTES else None


def _plain(codec: int, payload: bytes) -> bytes:
    if codec == GZIP:
        return zlib.decompressobj(zlib.MAX_WBITS | 16).decompress(payload, MAX_BYTES + 1)
    if codec == LZ4:
        return lz4.frame.LZ4FrameDecompressor().decompress(payload, MAX_BYTES + 1)
    if codec == SNAPPY:
        return b"".join(map(bytes, map(cramjam.snappy.decompress_raw, _blocks(payload))))
    return bytes(cramjam.zstd.decompress(payload))


def _blocks(payload: bytes) -> Iterator[bytes]:
    """Yield the one raw block, or the blocks of the stream that Java's clients write."""
    if not payload.startswith(_JAVA_SNAPPY):
        yield payload
        return
    at = 16
    while at < len(payload):
        (length,) = struct.unpack_from(">i", payload, at)
        yield payload[at + 4 : at + 4 + length]
        at += 4 + length
