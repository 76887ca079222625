from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import orjson
import pytest

from calmstream.common.errors import FatalError, ForeignRecord, Reason
from calmstream.estimators.tally import Tally
from calmstream.estimators.wire.state import (
    ClosedWindow,
    PartitionState,
    WindowCount,
    closed_key,
    decode_closed,
    decode_state,
    encode_closed,
    encode_state,
    parse_key,
    partition_key,
)
from tests.support.tally import small_plan

PLAN = small_plan()
COUNT = WindowCount(Tally(np.array([3]), np.array([[1, 0, 0, 2]])), {Reason.LATE: 2})
STATE = encode_state(PLAN, PartitionState("id", 7, 900, 1, 5, 800, COUNT, {2: COUNT}))
CLOSED = encode_closed(PLAN, ClosedWindow(1, 6, COUNT, COUNT))

Decode = Callable[[bytes], object]


def state(raw: bytes) -> object:
    return decode_state(PLAN, 0, raw)


def closed(raw: bytes) -> object:
    return decode_closed(PLAN, 0, raw)


def changed(raw: bytes, **fields: Any) -> bytes:
    return orjson.dumps(orjson.loads(raw) | fields)


both = pytest.mark.parametrize(("decode", "good"), [(state, STATE), (closed, CLOSED)])


def test_what_is_written_is_read() -> None:
    assert encode_state(PLAN, decode_state(PLAN, 0, STATE)) == STATE
    assert encode_closed(PLAN, decode_closed(PLAN, 0, CLOSED)) == CLOSED
    assert parse_key(partition_key(3, 12)) == (3, 12, None)
    assert parse_key(closed_key(3, 12, 40)) == (3, 12, 40)


@both
@pytest.mark.parametrize("version", ["2.0", "1.99", "10.0"])
def test_the_error_about_a_newer_version_names_the_remedy(
    decode: Decode, good: bytes, version: str
) -> None:
    with pytest.raises(FatalError, match=rf"version {version}, newer .* run the newer") as stop:
        decode(changed(good, v=version))
    assert "\n" not in str(stop.value)


@both
@pytest.mark.parametrize(
    "raw", [b"", b"hello", b"[]", b"7", b"null", b"{}", b'{"v":1}', b'{"v":"x"}']
)
def test_what_is_no_record_is_named_as_such(decode: Decode, good: bytes, raw: bytes) -> None:
    decode(good)
    with pytest.raises(ForeignRecord):
        decode(raw)


@both
def test_a_record_of_another_plan_is_judged_before_its_version(decode: Decode, good: bytes) -> None:
    for raw in (b'{"v":"9.0"}', changed(good, plan="0" * 64, v="9.0")):
        with pytest.raises(ForeignRecord, match="another plan"):
            decode(raw)


@both
def test_offsets_that_no_log_of_the_plan_reaches_are_foreign(decode: Decode, good: bytes) -> None:
    for field in {"next_offset", "resume_from", "closed_at"} & orjson.loads(good).keys():
        for offset in (10**15, -1, 7.0, True, "7"):
            with pytest.raises(ForeignRecord, match=field):
                decode(changed(good, **{field: offset}))


BROKEN_COUNTS = {
    "too few cells": {"n": [3], "counts": [[1, 0, 0]], "rejects": {}},
    "too many views": {"n": [3, 0], "counts": [[1, 0, 0, 2], [0] * 4], "rejects": {}},
    "no counts": {"n": [3], "rejects": {}},
    "an unknown reason": {"n": [3], "counts": [[1, 0, 0, 2]], "rejects": {"mood": 1}},
    "text": "three",
}


@both
@pytest.mark.parametrize("case", BROKEN_COUNTS)
def test_damaged_counts_stop(decode: Decode, good: bytes, case: str) -> None:
    with pytest.raises(FatalError, match="damaged"):
        decode(changed(good, total=BROKEN_COUNTS[case]))


@pytest.mark.parametrize("key", [b"", b"x", b"1", b"1/2/3/4", b"a/b", "٣/x".encode(), b"\xff/1"])
def test_a_foreign_key_is_named_as_such(key: bytes) -> None:
    with pytest.raises(FatalError, match="foreign key"):
        parse_key(key)
