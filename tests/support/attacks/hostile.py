"""Hostile batches: damaged ones (`kinds`), and valid ones that no device sends (`lies`)."""

from __future__ import annotations

import gzip
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from calmstream.broker.record_batches.codecs import MAX_BYTES
from calmstream.estimators.plan import Plan
from tests.support.batches import (
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
from tests.support.forged import forged


@dataclass(frozen=True)
class Kind:
    payload: bytes  # the records of the batch, compressed or not
    count: int = 1  # number of records that the header states
    rejected: int = 1  # number of rejections that the batch causes
    accepted: int = 0  # number of reports of the batch that must be counted
    codec: int = 0  # compression codec in the header
    attributes: int = 0  # further bits of the header's attributes
    last_delta: int | None = None  # last offset in the header, relative to the first

    def stated(self) -> dict[str, object]:
        given: dict[str, object] = {"codec": self.codec, "attributes": self.attributes}
        return given if self.last_delta is None else {**given, "last_delta": self.last_delta}


def record(body: bytes) -> bytes:
    return varint(len(body)) + body


_INVALID = "Kafka 4.1 answers INVALID_RECORD: it counts records and the bytes of each"
_UNKNOWN = "Kafka 4.1 answers UNKNOWN_SERVER_ERROR: its request handler meets an exception"

REFUSED = {
    "damaged headers": _INVALID,
    "a codec that does not exist": _UNKNOWN,
    "a bomb": _INVALID,
    "not lz4": _UNKNOWN,
    "not zstd": _UNKNOWN,
    "not snappy": _UNKNOWN,
    "not gzip": _UNKNOWN,
    "one record less than stated": _INVALID,
    "bytes behind the records": _INVALID,
    "a key beyond its record": _INVALID,
    "a batch without records": _INVALID,
    "a transaction marker": _INVALID,
}
"""Kinds that a current broker does not store, and its answer.

Logs of older releases and other vendors may hold them, so tests write them into a broker's files.
"""


def sendable(all_kinds: dict[str, Kind]) -> dict[str, Kind]:
    assert REFUSED.keys() <= all_kinds.keys(), "a refused kind has another name now"
    return {name: kind for name, kind in all_kinds.items() if name not in REFUSED}


@cache
def _bomb() -> bytes:
    return gzip.compress(bytes(MAX_BYTES + 1))


@cache
def _bomb_in_a_record() -> bytes:
    return gzip.compress(encode_rows([Row(bytes(MAX_BYTES + 1), b"k" * 16)]))


@cache
def _bomb_of_records() -> bytes:
    return gzip.compress(encode_rows([Row(b"")] * 70_000))


@cache
def _megabyte() -> bytes:
    return encode_rows([Row(bytes((1 << 20) + 1), b"k" * 16)])


def kinds(honest: Callable[[], Row]) -> dict[str, Kind]:
    """Return every kind by name; ``honest`` makes a record that is counted."""

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
        "a bomb": Kind(_bomb(), codec=GZIP),
        "a bomb in a record": Kind(_bomb_in_a_record(), codec=GZIP),
        "a bomb of records": Kind(_bomb_of_records(), 70_000, codec=GZIP),
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
        "a megabyte of nothing": Kind(_megabyte()),
        "a tombstone": Kind(encode_rows([Row(None, b"k" * 16)])),
        "a record of no bytes": Kind(encode_rows([Row(b"", b"")])),
    }


SLOWEST_SECONDS = 60  # of a busy broker that stores a record


def lies(plan: Plan, group: int, period: int) -> dict[str, Row]:
    """Return records that no device sends in window ``period``, by the reason of their rejection.

    The plan has one view in each group, by GRR.
    """
    bound = plan.groups[group].mechanism.cells
    width = next(w for w in (1, 2, 4, 8) if bound <= 256**w)

    def row(cells: list[int] | None = None, key: bytes | None = None, **changed: Any) -> Row:
        stated = {"group": group, "period": period, "width": width} | changed
        value = forged(stated.pop("plan", plan.digest), cells or [0], **stated)
        return Row(value, key or secrets.token_bytes(16))

    most = plan.limits.batch_reports if plan.limits is not None else (1 << 16) - 1
    soon = 3 + (plan.skew + SLOWEST_SECONDS) // plan.window
    over = period - 2 - -(-plan.grace // plan.window)
    found = {
        "unknown_version": row(version=2),
        "unknown_plan": row(plan="0" * 64),
        "bad_batch_id": row(key=b"fifteen bytes .."[:15]),
        "wrong_group": row(group=group + 1),
        "malformed": row(n=2),
        "out_of_range": row([256**width - 1]),
        "after_end": row(period=plan.windows),
        "early": row(period=period + soon),
        "over_limit": row([0] * (most + 1)),
    }
    return found | ({"late": row(period=over)} if over >= 0 else {})
