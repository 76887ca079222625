"""Check batches: they are read as sent, have one encoding, and bad bytes have one reason."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calmstream.common.errors import Reason, Rejection
from calmstream.consumer.operations.retire import TICK_ONLY_BYTES
from calmstream.estimators.domain import Domain
from calmstream.estimators.mechanisms import registry
from calmstream.estimators.plan import Group, Plan
from calmstream.estimators.randomness import SeededRandomness
from calmstream.estimators.view import View
from calmstream.estimators.wire.batch import (
    HEAD_BYTES,
    TICK,
    Batch,
    decode_batch,
    encode_batch,
    form_of,
)
from tests.support.attacks.fuzzing import plan_of
from tests.support.batches import Row
from tests.support.batches import batch as record_batch

PLAN = plan_of()
GROUPS = range(len(PLAN.groups))
KEY = bytes(range(16))
NO_BATCHES = (None, b"", b"{}", b"\x02\x01")


def batch(plan: Plan, group: int, n: int, seed: int = 0) -> Batch:
    mechanism, views = plan.mechanisms[group], len(plan.groups[group].views)
    columns = mechanism.perturb(np.arange(n) % mechanism.cells, SeededRandomness(seed))
    return Batch(2, n, np.arange(n) % views if views > 1 else None, columns)


def reason_of(
    plan: Plan, group: int, value: bytes | None, key: bytes | None = KEY
) -> Reason | None:
    try:
        decode_batch(plan, group, key, value)
    except Rejection as rejection:
        return rejection.reason
    return None


def assert_equal(one: Batch, other: Batch) -> None:
    assert (one.period, one.n) == (other.period, other.n)
    pairs = [(one.columns[name], other.columns[name]) for name in other.columns]
    if one.view is not None and other.view is not None:
        pairs.append((one.view, other.view))
    assert (one.view is None) == (other.view is None)
    assert one.columns.keys() == other.columns.keys()
    for left, right in pairs:
        assert (left.dtype, left.shape) == (right.dtype, right.shape)
        assert (left == right).all()


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("n", [1, 2, 37, 1000])
def test_a_batch_is_read_as_it_was_sent(group: int, n: int) -> None:
    sent = batch(PLAN, group, n)
    raw = encode_batch(PLAN, group, sent)
    assert len(raw) == HEAD_BYTES + n * form_of(PLAN, group).report_bytes
    assert_equal(decode_batch(PLAN, group, KEY, raw), sent_as_read(sent))


@pytest.mark.parametrize("sizes", [(255,), (256,), (257,), (256, 256), (256, 257)])
def test_an_integer_takes_the_fewest_bytes_that_hold_the_largest(sizes: tuple[int, ...]) -> None:
    cells = math.prod(sizes)
    mechanism = registry.standard("grr", "1", cells)
    domain = Domain.from_json(
        [{"name": str(j), "labels": [str(i) for i in range(n)]} for j, n in enumerate(sizes)]
    )
    view = View(tuple(range(len(sizes))))
    plan = replace(
        PLAN, domain=domain, k=1, marginals=((0,),), groups=(Group(mechanism, (view,), (1,)),)
    )
    values = np.array([0, 1, cells - 2, cells - 1])
    raw = encode_batch(plan, 0, Batch(0, 4, None, {"v": values}))
    width = next(w for w in (1, 2, 4) if cells <= 256**w)
    assert len(raw) == HEAD_BYTES + 4 * width
    assert decode_batch(plan, 0, KEY, raw).columns["v"].tolist() == values.tolist()
    above = raw[:-width] + cells.to_bytes(width + 1, "little")[:width]
    possible = cells < 256**width
    assert reason_of(plan, 0, above) is (Reason.OUT_OF_RANGE if possible else None)
    with pytest.raises(ValueError, match="must lie in"):
        encode_batch(plan, 0, Batch(0, 1, None, {"v": np.array([cells])}))


def test_a_batch_has_1_to_65535_reports() -> None:
    for n in (0, 65_536):
        columns = {"v": np.zeros(n, np.int64)}
        group = next(g for g in GROUPS if PLAN.mechanisms[g].name == "grr")
        with pytest.raises(ValueError, match="1 to 65535"):
            encode_batch(PLAN, group, Batch(0, n, None, columns))
    with pytest.raises(ValueError, match="period"):
        encode_batch(PLAN, group, Batch(1 << 32, 1, None, {"v": np.zeros(1, np.int64)}))


def sent_as_read(sent: Batch) -> Batch:
    columns = {
        name: values.astype(np.uint8 if values.ndim > 1 else np.int64)
        for name, values in sent.columns.items()
    }
    return replace(sent, columns=columns)


@settings(max_examples=400, deadline=None)
@given(seed=st.integers(0, 1 << 30))
def test_changed_bytes_are_the_encoding_of_a_batch_or_rejected(seed: int) -> None:
    dice = random.Random(seed)
    group = dice.choice(GROUPS)
    raw = bytearray(encode_batch(PLAN, group, batch(PLAN, group, dice.choice((1, 2, 9)), seed)))
    for _ in range(dice.choice((1, 1, 2, 4))):
        match dice.randrange(3):
            case 0:
                raw[dice.randrange(1, len(raw))] = dice.randrange(256)
            case 1:
                del raw[dice.randrange(1, len(raw)) :]
            case _:
                raw += dice.randbytes(dice.randrange(1, 4))
        if len(raw) < 2:
            break
    value = bytes(raw)
    try:
        read = decode_batch(PLAN, group, KEY, value)
    except Rejection:
        return
    assert encode_batch(PLAN, group, read) == value, "a batch has one encoding"


@pytest.mark.parametrize(
    ("change", "key", "reason"),
    [
        *((lambda _, b=body: b, KEY, Reason.UNDECODABLE) for body in NO_BATCHES),
        (lambda raw: raw[:1], KEY, Reason.MALFORMED),
        (lambda raw: raw[:1] + b"\x02", KEY, Reason.UNKNOWN_VERSION),
        (lambda raw: raw[:25], KEY, Reason.MALFORMED),
        (lambda raw: raw[:3] + bytes([raw[3] ^ 1]) + raw[4:], None, Reason.UNKNOWN_PLAN),
        (lambda raw: raw, None, Reason.BAD_BATCH_ID),
        (lambda raw: raw, KEY + b"x", Reason.BAD_BATCH_ID),
        (lambda raw: raw[:18] + b"\xff\xff" + raw[20:], KEY, Reason.WRONG_GROUP),
        (lambda raw: raw[:24] + b"\x00\x00", KEY, Reason.OUT_OF_RANGE),
        (lambda raw: raw + b"\x00", KEY, Reason.MALFORMED),
        (lambda raw: raw + bytes(1 << 20), KEY, Reason.OVERSIZED),
    ],
)
def test_every_fault_has_its_reason(change: object, key: bytes | None, reason: Reason) -> None:
    for group in GROUPS:
        raw = encode_batch(PLAN, group, batch(PLAN, group, 3))
        assert reason_of(PLAN, group, change(raw), key) is reason  # type: ignore[operator]


def test_a_retired_topic_takes_ticks_and_no_batch() -> None:
    sizes = [
        len(record_batch([Row(encode_batch(PLAN, g, batch(PLAN, g, 1)), KEY)], codec))
        for g in GROUPS
        for codec in (0, 1, 2, 3, 4)
    ]
    assert len(record_batch([Row(TICK)])) <= TICK_ONLY_BYTES < min(sizes)
