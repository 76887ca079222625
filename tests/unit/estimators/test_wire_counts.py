from __future__ import annotations

import zlib

import numpy as np
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calmstream.common.errors import ForeignRecord, InvalidInput
from calmstream.estimators.tally import Tally
from calmstream.estimators.wire.counts import (
    GroupCounts,
    counts_key,
    decode_counts,
    decode_header,
    encode_counts,
    read_record,
)
from tests.support.publisher import published_plan

PLAN = published_plan(windows=30)


def tally(*counters: int) -> Tally:
    return Tally(np.array(counters[:1]), np.array([counters[1:]]))


def value() -> bytes:
    window, total = tally(10, 1, 2, 3, 4), tally(300, 100, 100, 50, 50)
    return encode_counts(PLAN, GroupCounts(3, 1, (7, 9), window, total))


counters = st.lists(st.integers(0, 300) | st.integers(0, 1 << 53), min_size=5, max_size=5).map(
    lambda numbers: tally(*numbers)
)


@settings(deadline=None)
@given(counters, counters)
def test_counts_are_read_back(window: Tally, total: Tally) -> None:
    made = GroupCounts(12, 1, (1 << 30, 0), window, total)
    assert decode_counts(PLAN, encode_counts(PLAN, made)) == made


def test_the_bytes_are_frozen() -> None:
    header, _, body = value().partition(b"\n")
    assert orjson.loads(header) == {
        "v": "1.1",
        "plan": PLAN.digest,
        "window": 3,
        "group": 1,
        "revision": [7, 9],
        "suspicious": False,
    }
    planes = bytes([10, 1, 2, 3, 4, 300 - 256, 100, 100, 50, 50, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0])
    assert zlib.decompress(body) == planes


def changed(**fields: object) -> bytes:
    header, _, body = value().partition(b"\n")
    return orjson.dumps(orjson.loads(header) | fields) + b"\n" + body


def with_body(body: bytes) -> bytes:
    return value().split(b"\n")[0] + b"\n" + body


FOREIGN = {
    "no header": b"\n",
    "no counters": value().split(b"\n")[0],
    "another plan": changed(plan="0" * 64),
    "unknown group": changed(group=2),
    "negative group": changed(group=-1),
    "another number of partitions": changed(revision=[1]),
    "no revision": changed(revision=None),
    "no version": changed(v=None),
    "truncated": value()[:-3],
    "trailing bytes": value() + b"x",
    "too few counters": with_body(zlib.compress(bytes(9))),
    "a bomb": with_body(zlib.compress(bytes(1 << 24))),
    "a negative counter": with_body(zlib.compress(b"\xff" * 80)),
}


@pytest.mark.parametrize("raw", FOREIGN.values(), ids=FOREIGN.keys())
def test_what_is_no_counts_record_is_foreign(raw: bytes) -> None:
    with pytest.raises(ForeignRecord):
        decode_counts(PLAN, raw)


def test_a_record_is_read_under_its_own_key_only() -> None:
    assert read_record(PLAN, counts_key(3, 1), value()) == decode_header(PLAN, value())
    for key, why in ((counts_key(3, 0), "window 3 under another key"), (b"x", "foreign key")):
        with pytest.raises(ForeignRecord, match=why):
            read_record(PLAN, key, value())
    with pytest.raises(ForeignRecord, match="deletion"):
        read_record(PLAN, counts_key(3, 1), None)


def test_a_newer_version_is_one_clear_line() -> None:
    with pytest.raises(InvalidInput, match=r"version 2\.0, newer than 1\.1: run"):
        decode_header(PLAN, changed(v="2.0"))
    assert decode_counts(PLAN, changed(later=1)).window == 3
