"""Hostile batches for a reports topic: every kind that a broker may store, around honest ones."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from dataclasses import dataclass

from broker.record_batches.codecs import MAX_BYTES
from tests.batches import (
    CONTROL,
    GZIP,
    LZ4,
    SNAPPY,
    ZSTD,
    Row,
    compress,
    encode_rows,
    java_snappy,
    sized,
    varint,
)


@dataclass(frozen=True)
class Kind:
    """One way to send what nobody should send.

    Attributes:
        payload: of a batch.
        count: of records, as the batch states it.
        rejected, accepted: how many rejections and counted reports follow from it.
        codec, attributes, last_delta: of its header.
    """

    payload: bytes
    count: int = 1
    rejected: int = 1
    accepted: int = 0
    codec: int = 0
    attributes: int = 0
    last_delta: int | None = None

    def stated(self) -> dict[str, object]:
        given: dict[str, object] = {"codec": self.codec, "attributes": self.attributes}
        return given if self.last_delta is None else {**given, "last_delta": self.last_delta}


def record(body: bytes) -> bytes:
    return varint(len(body)) + body


def kinds(honest: Callable[[], Row]) -> dict[str, Kind]:
    """Every kind; ``honest`` makes a record that would be counted."""

    def plain() -> bytes:
        return encode_rows([honest()])

    three = encode_rows([honest(), honest(), honest()])
    empty = b"\x00" + varint(0) + varint(0)
    return {
        "a header name that is not UTF-8": Kind(
            encode_rows([Row(honest().value, honest().key, [(b"\xff\xfe", b"x")])]),
            rejected=0,
            accepted=1,
        ),
        "damaged headers": Kind(
            record(empty + sized(b"k" * 16) + sized(b"{}") + varint(9) + b"\xff"), rejected=1
        ),
        "lz4": Kind(compress(LZ4, plain()), codec=LZ4, rejected=0, accepted=1),
        "zstd": Kind(compress(ZSTD, plain()), codec=ZSTD, rejected=0, accepted=1),
        "snappy": Kind(compress(SNAPPY, plain()), codec=SNAPPY, rejected=0, accepted=1),
        "Java's snappy": Kind(java_snappy(plain()), codec=SNAPPY, rejected=0, accepted=1),
        "gzip": Kind(gzip.compress(plain()), codec=GZIP, rejected=0, accepted=1),
        "a codec that does not exist": Kind(plain(), codec=6),
        "a bomb": Kind(gzip.compress(bytes(MAX_BYTES + 1)), codec=GZIP),
        "a bomb of records": Kind(
            gzip.compress(encode_rows([Row(b"")] * 70_000)), 70_000, codec=GZIP
        ),
        "not lz4": Kind(b"x" * 40, 2, codec=LZ4),
        "not zstd": Kind(b"x" * 40, 2, codec=ZSTD),
        "not snappy": Kind(b"x" * 40, 2, codec=SNAPPY),
        "not gzip": Kind(b"x" * 40, 2, codec=GZIP),
        "one record less than stated": Kind(three, 4),
        "bytes behind the records": Kind(three + b"\x00", 3),
        "a key beyond its record": Kind(record(empty + varint(100) + b"k")),
        "an offset beyond its batch": Kind(
            encode_rows([Row(honest().value, honest().key, offset_delta=7)])
        ),
        "a batch without records": Kind(b"", 0, rejected=0, last_delta=3),
        "a transaction marker": Kind(b"\x00", rejected=0, attributes=CONTROL),
        "a megabyte of nothing": Kind(encode_rows([Row(bytes((1 << 20) + 1), b"k" * 16)])),
        "a tombstone": Kind(encode_rows([Row(None, b"k" * 16)])),
        "a record of no bytes": Kind(encode_rows([Row(b"", b"")])),
    }
