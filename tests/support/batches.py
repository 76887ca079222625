"""Encode record batches byte by byte, valid or not, and send them to a real broker.

The encoder is written from the description of the format alone. It shares no code with the decoder
under test or with a Kafka client.
"""

from __future__ import annotations

import gzip
import socket
import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass

import cramjam
import crc32c
import lz4.frame

GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4
CODECS = {"none": 0, "gzip": GZIP, "snappy": SNAPPY, "lz4": LZ4, "zstd": ZSTD}
CONTROL, TRANSACTIONAL, APPEND_TIME = 0x20, 0x10, 0x08

PRODUCE, PRODUCE_VERSION = 0, 7
SECONDS = 20.0
# The broker has stored nothing: its metadata lacks the topic, or no leader is elected yet.
UNKNOWN_TOPIC, LEADER_NOT_AVAILABLE, NOT_LEADER = 3, 5, 6
NOT_YET = frozenset({UNKNOWN_TOPIC, LEADER_NOT_AVAILABLE, NOT_LEADER})
PAUSE_SECONDS = 0.05

Header = tuple[bytes, bytes | None]


@dataclass(frozen=True)
class Row:
    value: bytes | None
    key: bytes | None = None
    headers: Sequence[Header] = ()
    time_delta: int = 0
    offset_delta: int | None = None


def varint(number: int) -> bytes:
    """Encode a zigzag varint: seven bits a byte, the lowest first."""
    rest = (number << 1) ^ (number >> 63)
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def sized(content: bytes | None) -> bytes:
    return varint(-1) if content is None else varint(len(content)) + content


def encode_row(row: Row, index: int) -> bytes:
    delta = index if row.offset_delta is None else row.offset_delta
    headers = b"".join(sized(name) + sized(content) for name, content in row.headers)
    body = (
        b"\x00"
        + varint(row.time_delta)
        + varint(delta)
        + sized(row.key)
        + sized(row.value)
        + varint(len(row.headers))
        + headers
    )
    return varint(len(body)) + body


def encode_rows(rows: Sequence[Row]) -> bytes:
    return b"".join(encode_row(row, i) for i, row in enumerate(rows))


def compress(codec: int, plain: bytes) -> bytes:
    """Compress as a sender does; snappy in one raw block."""
    if codec == GZIP:
        return gzip.compress(plain, 6)
    if codec == SNAPPY:
        return bytes(cramjam.snappy.compress_raw(plain))
    if codec == LZ4:
        # Kafka's own decoder knows no blocks that depend on each other.
        return bytes(lz4.frame.compress(plain, block_linked=False))
    if codec == ZSTD:
        return bytes(cramjam.zstd.compress(plain))
    return plain


def java_snappy(plain: bytes, block: int = 32 << 10) -> bytes:
    """Compress with snappy into the stream that Java's clients write."""
    blocks = (
        bytes(cramjam.snappy.compress_raw(plain[at : at + block]))
        for at in range(0, len(plain), block)
    )
    head = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
    return head + b"".join(struct.pack(">i", len(one)) + one for one in blocks)


def frame(
    payload: bytes,
    count: int,
    *,
    codec: int = 0,
    attributes: int = 0,
    base_offset: int = 0,
    last_delta: int | None = None,
    first_time: int = 1_700_000_000_000,
    max_time: int | None = None,
    epoch: int = -1,
    magic: int = 2,
    checksum: int | None = None,
    producer: tuple[int, int, int] = (-1, -1, -1),
) -> bytes:
    """Encode a batch around any payload, with its right checksum unless one is given."""
    rest = struct.pack(
        ">hiqqqhii",
        attributes | codec,
        count - 1 if last_delta is None else last_delta,
        first_time,
        first_time if max_time is None else max_time,
        *producer,
        count,
    )
    rest += payload
    crc = crc32c.crc32c(rest) if checksum is None else checksum
    body = struct.pack(">ibI", epoch, magic, crc) + rest
    return struct.pack(">qi", base_offset, len(body)) + body


def batch(rows: Sequence[Row], codec: int = 0, **stated: object) -> bytes:
    payload = compress(codec, encode_rows(rows))
    return frame(payload, len(rows), codec=codec, **stated)  # type: ignore[arg-type]


class RefusedError(Exception):
    def __init__(self, code: int) -> None:
        super().__init__(f"error code {code}")
        self.code = code


def produce(bootstrap: str, topic: str, partition: int, records: bytes) -> int:
    """Send bytes as one batch, await the acknowledgement, and return the first offset.

    Sends again while the partition has no leader, as every Kafka client does, for ``SECONDS``.
    """
    deadline = time.monotonic() + SECONDS
    while True:
        code, offset = _produce_once(bootstrap, topic, partition, records)
        if not code:
            return offset
        if code not in NOT_YET or time.monotonic() > deadline:
            raise RefusedError(code)
        time.sleep(PAUSE_SECONDS)


def _produce_once(bootstrap: str, topic: str, partition: int, records: bytes) -> tuple[int, int]:
    """Send one request; its error code (0: none) and the first offset."""
    host, _, port = bootstrap.partition(",")[0].rpartition(":")
    name = topic.encode()
    body = (
        struct.pack(">h", -1)
        + struct.pack(">hi", -1, int(SECONDS * 1000))
        + struct.pack(">i", 1)
        + struct.pack(">h", len(name))
        + name
        + struct.pack(">iii", 1, partition, len(records))
        + records
    )
    client = b"raw"
    head = struct.pack(">hhih", PRODUCE, PRODUCE_VERSION, 1, len(client)) + client
    with socket.create_connection((host, int(port)), SECONDS) as link:
        link.sendall(struct.pack(">i", len(head) + len(body)) + head + body)
        size = struct.unpack(">i", _receive(link, 4))[0]
        answer = _receive(link, size)
    at = 4 + 4 + 2 + len(name) + 4 + 4
    code, offset = struct.unpack_from(">hq", answer, at)
    return int(code), int(offset)


def _receive(link: socket.socket, size: int) -> bytes:
    received = b""
    while len(received) < size:
        part = link.recv(size - len(received))
        if not part:
            raise ConnectionError("the broker closed the connection")
        received += part
    return received
