"""Decompression with a bound: what a batch may expand to is part of the wire format."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

import cramjam
import numpy as np

Room = memoryview

MAX_BYTES = 32 << 20
"""Most bytes that the records of one batch may take up; more is damage, whatever the codec."""

# Java's snappy output stream: magic, version and least version, then blocks behind their lengths.
_STREAM_MAGIC = b"\x82SNAPPY\x00"
_STREAM_HEADER = 16
_LENGTH_BYTES = 4


class NotDecompressible(Exception):  # noqa: N818 - a verdict on the bytes
    """The bytes are not of the codec, or expand beyond the bound."""


def decompress(codec: int, data: memoryview) -> bytes:
    """The records of a compressed batch.

    Args:
        codec: as the batch's header numbers it; not 0.
        data: what follows the header.

    Returns:
        At most ``MAX_BYTES`` bytes. Memory: twice that at most, whatever the input claims; half of
        it stays with the thread.

    Raises:
        NotDecompressible: and nothing else.
    """
    if codec not in CODECS:
        raise NotDecompressible(f"there is no codec {codec}")
    name, into = CODECS[codec]
    room = _room()
    try:
        written = into(bytes(data), room)
    except _FAILURES as error:
        raise NotDecompressible(f"not {name} of at most {MAX_BYTES} bytes") from error
    return room[:written].tobytes()


class _Rooms(threading.local):
    """One buffer a thread. The system gives its memory page by page, as it is first written to."""

    room: Room | None = None


_rooms = _Rooms()


def _room() -> Room:
    if _rooms.room is None:
        _rooms.room = np.empty(MAX_BYTES, np.uint8).data
    return _rooms.room


_FAILURES = (cramjam.DecompressionError, ValueError, OverflowError)


def _gzip(data: bytes, out: Room) -> int:
    return int(cramjam.gzip.decompress_into(data, out))


def _lz4(data: bytes, out: Room) -> int:
    return int(cramjam.lz4.decompress_into(data, out))


def _zstd(data: bytes, out: Room) -> int:
    return int(cramjam.zstd.decompress_into(data, out))


def _snappy(data: bytes, out: Room) -> int:
    """One raw block, or the blocks of Java's stream."""
    if not data.startswith(_STREAM_MAGIC):
        return _snappy_block(data, out)
    at, written = _STREAM_HEADER, 0
    if len(data) < at:
        raise ValueError("the stream's header is cut off")
    while at < len(data):
        length = int.from_bytes(data[at : at + _LENGTH_BYTES], "big")
        at += _LENGTH_BYTES
        if length == 0 or at + length > len(data):
            raise ValueError("a block is empty or cut off")
        written += _snappy_block(data[at : at + length], out[written:])
        at += length
    return written


def _snappy_block(block: bytes, room: Room) -> int:
    if cramjam.snappy.decompress_raw_len(block) > len(room):
        raise ValueError("a block is larger than the room")
    return int(cramjam.snappy.decompress_raw_into(block, room))


CODECS: Mapping[int, tuple[str, Callable[[bytes, Room], int]]] = {
    1: ("gzip", _gzip),
    2: ("snappy", _snappy),
    3: ("lz4", _lz4),
    4: ("zstd", _zstd),
}
