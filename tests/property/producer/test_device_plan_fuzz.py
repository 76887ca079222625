"""Check that a changed plan is refused in one line, or that a device can report under it."""

from __future__ import annotations

import random
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calmstream import MemoryStore, Report, read_device_plan
from calmstream.common.errors import PlanError
from calmstream.estimators.plan import Guarantee, Plan
from calmstream.estimators.wire.report import decode_report
from calmstream.producer.device.assignment import place
from calmstream.producer.device.ledger import DeviceState
from tests.support.attacks.fuzzing import plan_of
from tests.support.attacks.hostile_plans import bloom, document, whole
from tests.support.producer import make_plan, unsigned_reporter

PLANS = [
    make_plan(),
    make_plan(guarantee=Guarantee("w-event", 3)),
    plan_of(),
]
DOCUMENTS = [
    *(plan.to_bytes() for plan in PLANS),
    orjson.dumps(document()),
    whole([40, 30], bloom([40, 30], 64, 5)),
]
NUMBERS = (0, 1, 2, 3, 4, 5, 7, 8, 16, 63, 64, 255, 4096, 65_536, -1, 1 << 20, 1 << 24, 1 << 32)
CHANGES = 1000
ODD: tuple[Any, ...] = (
    *NUMBERS, (1 << 53) - 1, 1 << 53, 1 << 62, (1 << 63) - 1, (1 << 64) - 1, 0.5, 1e300, -0.0,
    None, True, False, "", "1", "0.5", "128", "0.001", "grr", "bloom-rr", "subset-selection", "é",
    "\x00", [], {}, [[]], [0], [1, 2], [0, 1, 2], [2] * 61, ["0", "1"], {"name": "x"},
)  # fmt: skip


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    items: Any = ()
    if isinstance(value, dict):
        items = list(value.items())
    elif isinstance(value, list):
        items = list(enumerate(value))
    for key, item in items:
        yield value, key
        yield from places(item)


def change(plan: Any, dice: random.Random) -> None:
    container, key = dice.choice(list(places(plan)))
    kind = dice.randrange(6)
    if kind == 0:
        container[key] = deepcopy(dice.choice(ODD))
    elif kind == 1:
        del container[key]
    elif kind == 2 and isinstance(container[key], list):
        container[key] = container[key] * dice.choice((2, 3, 40))
    elif kind == 3 and isinstance(container[key], int):
        container[key] = dice.choice((*NUMBERS, container[key] + 1, container[key] * 2))
    elif kind == 4:
        container[key] = [container[key]]
    else:
        other, name = dice.choice(list(places(plan)))
        container[key] = orjson.loads(orjson.dumps(other[name]))


def damage(raw: bytes, dice: random.Random) -> bytes:
    at, end = sorted(dice.randrange(len(raw) + 1) for _ in range(2))
    kind = dice.randrange(4)
    if kind == 0:
        return raw[:at] + bytes([dice.randrange(256)]) + raw[at + 1 :]
    if kind == 1:
        return raw[:at] + raw[min(end, at + 9) :]
    if kind == 2:
        return raw[:end] + raw[at:end]
    return raw[:at] + dice.choice((b'"', b"\\", b"[", b"{", b",", b"1e9", b"\xff")) + raw[at:]


def hurt(raw: bytes, seed: int) -> bytes:
    dice = random.Random(seed)
    if dice.random() < 0.3:
        for _ in range(dice.choice((1, 1, 2))):
            raw = damage(raw, dice)
        return raw
    plan = orjson.loads(raw)
    for _ in range(dice.choice((1, 1, 1, 2, 4))):
        change(plan, dice)
    return orjson.dumps(plan)


def reports(plan: Plan, secret: bytes) -> bool:
    """Return whether a device reports in some window; gateway and worker must read its report."""
    slot = place(plan, secret).slot
    if slot >= plan.windows:
        return False
    now = plan.window_start(slot)
    report = unsigned_reporter(plan, MemoryStore(DeviceState(secret)), clock=lambda: now).report({})
    assert report is not None
    raw = report.encode(plan)
    assert Report.decode(plan, raw).encode(plan) == raw
    assert decode_report(plan, raw)[0] == report.group
    return True


@pytest.mark.parametrize(
    "number", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in range(1, len(DOCUMENTS)))]
)
def test_a_changed_plan_is_refused_or_reports(number: int) -> None:
    read = refused = 0
    for seed in range(CHANGES):
        raw = hurt(DOCUMENTS[number], 1000 * number + seed)
        try:
            plan = read_device_plan(raw)
        except PlanError as error:
            refused += len(str(error)) <= 300
            continue
        for secret in range(4):
            reports(plan, secret.to_bytes(16, "big"))
        read += 1
    assert read + refused == CHANGES
    assert read > CHANGES // 60, "the fuzzer breaks everything"
    assert refused > CHANGES // 3, "the fuzzer breaks nothing"


@given(raw=st.binary(max_size=400))
@settings(max_examples=300, deadline=None)
def test_any_bytes_are_refused(raw: bytes) -> None:
    with pytest.raises(PlanError):
        read_device_plan(raw)
