"""Decompression of batches, with a maximum size of the result.

The maximum is part of the wire format: a batch that is larger counts as damaged on every machine.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

import cramjam
import numpy as np

MAX_BYTES = 32 << 20
"""Maximum size in bytes of the records of one batch, compressed or not; larger ones are damaged."""

# Java's snappy stream: 8 bytes of magic, version and minimum version of 4 bytes each, then blocks,
# each after its length.
_STREAM_MAGIC = b"\x82SNAPPY\x00"
_STREAM_HEADER = 16
_LENGTH_BYTES = 4


class NotDecompressible(Exception):  # noqa: N818 - a verdict on the bytes
    """The bytes are not valid for the codec, or are larger than the maximum when decompressed."""


def decompress(codec: int, data: memoryview) -> bytes:
    if codec not in CODECS:
        raise NotDecompressible(f"there is no codec {codec}")
    name, decompress_into = CODECS[codec]
    buffer = _thread_buffer()
    try:
        written = decompress_into(bytes(data), buffer)
    except _FAILURES as error:
        raise NotDecompressible(f"not {name} of at most {MAX_BYTES} bytes") from error
    return buffer[:written].tobytes()


class _ThreadLocal(threading.local):
    """Holds one buffer for each thread; the system provides a page only when it is written."""

    buffer: memoryview | None = None


_thread_local = _ThreadLocal()


def _thread_buffer() -> memoryview:
    if _thread_local.buffer is None:
        _thread_local.buffer = np.empty(MAX_BYTES, np.uint8).data
    return _thread_local.buffer


# Everything that the library raises for data that it cannot decompress into the buffer.
_FAILURES = (cramjam.DecompressionError, ValueError, OverflowError)


def _snappy(data: bytes, out: memoryview) -> int:
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


def _snappy_block(block: bytes, out: memoryview) -> int:
    if cramjam.snappy.decompress_raw_len(block) > len(out):
        raise ValueError("a block is larger than the buffer")
    return int(cramjam.snappy.decompress_raw_into(block, out))


CODECS: Mapping[int, tuple[str, Callable[[bytes, memoryview], int]]] = {
    1: ("gzip", cramjam.gzip.decompress_into),
    2: ("snappy", _snappy),
    3: ("lz4", cramjam.lz4.decompress_into),
    4: ("zstd", cramjam.zstd.decompress_into),
}
"""The codecs by their numbers in a batch's header: name, and function that fills a buffer."""
