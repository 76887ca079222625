"""Check that every fault of a report has its reason; `test_decoder_fuzz` changes honest ones."""

from __future__ import annotations

import base64
from dataclasses import replace
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calmstream.common.errors import Reason, Rejection
from calmstream.estimators.mechanisms.registry import standard
from calmstream.estimators.plan import Group
from calmstream.estimators.randomness import SeededRandomness
from calmstream.estimators.view import View
from calmstream.estimators.wire.batch import Batch
from calmstream.estimators.wire.report import decode_report, encode_report
from tests.support.producer import make_plan

# GRR on 12 cells, OUE on 12 cells (four bits of padding), and a group of two views.
PLAN = replace(
    make_plan(),
    groups=(
        make_plan().groups[0],
        Group(standard("oue", "1", 12), (View((0, 1)),), (3,)),
        make_plan().groups[2],
    ),
)


def good(group: int) -> dict[str, Any]:
    mechanism, views = PLAN.mechanisms[group], len(PLAN.groups[group].views)
    columns = mechanism.perturb(np.zeros(1, np.int64), SeededRandomness(group))
    view = np.zeros(1, np.int64) if views > 1 else None
    body: dict[str, Any] = orjson.loads(encode_report(PLAN, group, Batch(0, 1, view, columns)))
    return body


def packed(rows: int, last: int = 0) -> str:
    return base64.b64encode(bytes([1, last] * rows)).decode()


BAD = [
    (1, {"columns": {"b": packed(1)[:-1] + "*"}}, Reason.MALFORMED),
    (1, {"columns": {"b": packed(1) + "="}}, Reason.MALFORMED),
    (1, {"columns": {"b": packed(1) + "===="}}, Reason.MALFORMED),
    (1, {"columns": {"b": packed(1) + "\n"}}, Reason.MALFORMED),
    (1, {"columns": {"b": [1, 0, 1]}}, Reason.MALFORMED),
    (1, {"columns": {"b": None}}, Reason.MALFORMED),
    (1, {"columns": {"b": packed(2)}}, Reason.LENGTH_MISMATCH),
    (1, {"columns": {"b": ""}}, Reason.LENGTH_MISMATCH),
    (1, {"columns": {"b": packed(1, 0x10)}}, Reason.OUT_OF_RANGE),
    (0, {"view": [0]}, Reason.MALFORMED),
    (2, {"view": None}, Reason.MALFORMED),
    (2, {"view": [0, 1]}, Reason.LENGTH_MISMATCH),
    (2, {"view": [2]}, Reason.OUT_OF_RANGE),
    (2, {"view": [-1]}, Reason.OUT_OF_RANGE),
    (2, {"view": [True]}, Reason.MALFORMED),
    (0, {"columns": {"v": [True]}}, Reason.MALFORMED),
    (0, {"columns": {"v": [1 << 63]}}, Reason.OUT_OF_RANGE),
    (0, {"columns": {"v": [-1]}}, Reason.OUT_OF_RANGE),
    (0, {"columns": {"v": [0], "w": [0]}}, Reason.MALFORMED),
    (0, {"n": True}, Reason.MALFORMED),
    (0, {"n": -1}, Reason.OUT_OF_RANGE),
    (0, {"n": 2}, Reason.OUT_OF_RANGE),
    (0, {"n": 0}, Reason.OUT_OF_RANGE),
    (0, {"columns": {"v": []}}, Reason.LENGTH_MISMATCH),
    (0, {"period": 0.0}, Reason.MALFORMED),
    (0, {"group": "0"}, Reason.MALFORMED),
    (0, {"group": 3}, Reason.WRONG_GROUP),
    (0, {"period": -1}, Reason.LATE),
    (0, {"period": 1 << 40}, Reason.AFTER_END),
    (0, {"v": 1.0}, Reason.UNKNOWN_VERSION),
]


@pytest.mark.parametrize(("group", "change", "reason"), BAD)
def test_every_fault_has_its_reason(group: int, change: dict[str, Any], reason: Reason) -> None:
    assert good(1)["columns"]["b"] != packed(1)
    decode_report(PLAN, orjson.dumps(good(1) | {"columns": {"b": packed(1, 0x0F)}}))
    assert verdict(orjson.dumps(good(group) | change)) is reason


def test_bits_that_no_byte_uses_must_be_zero() -> None:
    text, other = packed(1), packed(1)[:-2] + "B="
    assert text == "AQA="
    decode_report(PLAN, orjson.dumps(good(1) | {"columns": {"b": text}}))
    assert base64.b64decode(other) == base64.b64decode(text)
    with pytest.raises(Rejection, match="canonical"):
        decode_report(PLAN, orjson.dumps(good(1) | {"columns": {"b": other}}))


def verdict(value: bytes) -> Reason:
    with pytest.raises(Rejection) as refused:
        decode_report(PLAN, value)
    return refused.value.reason


@given(value=st.binary())
@settings(max_examples=300, deadline=None)
def test_any_bytes(value: bytes) -> None:
    verdict(value)


@pytest.mark.parametrize("opening", [b"[", b'{"v":'])
def test_deep_nesting(opening: bytes) -> None:
    assert verdict(opening * 50_000) is Reason.UNDECODABLE
