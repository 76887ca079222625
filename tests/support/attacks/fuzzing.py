"""Generate messages for a reports topic: valid ones, and valid ones with changes."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import orjson

from calmstream.common.errors import PlanError
from calmstream.estimators.mechanisms import registry
from calmstream.estimators.plan import Group, Plan
from calmstream.estimators.randomness import SeededRandomness
from calmstream.estimators.view import View
from calmstream.estimators.wire.batch import TICK, Batch, encode_batch
from tests.support.plans import pair_plan

Message = tuple[bytes | None, bytes | None]

ODD: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**31, 2**63, -(2**63) - 1, 10**400, 1.5, -0.0, 1e308, "",
    "1", "x", "\u0000", "é" * 9, [], {}, [[]], [None], [True], ["0"], [1.0], [-1], [2**64],
    {"v": []}, "====",
    "AAAA", "A" * 4000, [0] * 3000,
)  # fmt: skip


def _possible(name: str) -> bool:
    try:
        registry.standard(name, "1", 4)
    except PlanError:
        return False
    return True


def plan_of() -> Plan:
    """A plan with a group for every mechanism with four cells; the last group has two views."""
    views = ((0, 1), (1, 2), (2, 3), (0, 3), (0, 2), (1, 3))
    names = [name for name in registry.names() if _possible(name)]
    groups = []
    for place, name in enumerate(names):
        mechanism = registry.standard(name, "1", 4)
        count = 2 if name == names[-1] else 1
        of_group = tuple(View(views[(place + i) % 6]) for i in range(count))
        groups.append(Group(mechanism, of_group, (1,) * len(of_group)))
    return pair_plan("fuzz", 1_700_000_000, 10, 4, groups=tuple(groups))


def good(plan: Plan, group: int, dice: random.Random) -> Message:
    n = dice.choice((1, 2, 5, 40))
    mechanism, views = plan.mechanisms[group], len(plan.groups[group].views)
    values = np.array([dice.randrange(mechanism.cells) for _ in range(n)])
    columns = mechanism.perturb(values, SeededRandomness(dice.randrange(1 << 30)))
    view = np.array([dice.randrange(views) for _ in range(n)]) if views > 1 else None
    batch = Batch(dice.randrange(4), n, view, columns)
    return dice.randbytes(16), encode_batch(plan, group, batch)


def messages(plan: Plan, group: int, seed: int, pool: int = 50) -> Iterator[Message]:
    """Yield messages for ever: valid batches, most of them with one to three changes."""
    dice = random.Random(seed)
    honest = [good(plan, group, dice) for _ in range(pool)]
    while True:
        key, value = dice.choice(honest)
        for _ in range(dice.choice((0, 1, 1, 1, 2, 3))):
            key, value = dice.choice(_CHANGES)(key, value, dice)
        yield key, value


def changed(honest: Sequence[bytes], seed: int) -> Iterator[bytes | None]:
    """Yield values for ever: the honest values, most of them with one or two changes."""
    dice = random.Random(seed)
    while True:
        value: bytes | None = dice.choice(honest)
        for _ in range(dice.choice((0, 1, 1, 2))):
            _, value = dice.choice(_CHANGES)(b"", value, dice)
        yield value


def _bytes(key: Any, value: Any, dice: random.Random) -> Message:
    raw = bytearray(value or b"{}")
    for _ in range(dice.choice((1, 1, 2, 8))):
        if raw:
            raw[dice.randrange(len(raw))] = dice.randrange(256)
    return key, bytes(raw)


def _cut(key: Any, value: Any, dice: random.Random) -> Message:
    raw = value or b""
    return key, raw[: dice.randrange(len(raw) + 1)]


def _splice(key: Any, value: Any, dice: random.Random) -> Message:
    raw = value or b""
    a, b = sorted(dice.randrange(len(raw) + 1) for _ in range(2))
    return key, raw[:b] + raw[a:b] * dice.choice((1, 3)) + raw[b:]


def _field(key: Any, value: Any, dice: random.Random) -> Message:
    try:
        body = orjson.loads(value or b"")
    except orjson.JSONDecodeError:
        return key, value
    place = body
    if isinstance(body, dict) and isinstance(body.get("columns"), dict) and dice.random() < 0.4:
        place = body["columns"]
    if not isinstance(place, dict) or not place:
        return key, value
    name = dice.choice(sorted(place))
    kind = dice.randrange(4)
    if kind == 0:
        place[name] = dice.choice(ODD)
    elif kind == 1:
        del place[name]
    elif kind == 2:
        place[name + dice.choice(("x", " ", "é"))] = place.pop(name)
    elif isinstance(place[name], list) and place[name]:
        place[name][dice.randrange(len(place[name]))] = dice.choice(ODD)
    try:
        return key, orjson.dumps(body)
    except (TypeError, orjson.JSONEncodeError):
        return key, value


def _key(key: Any, value: Any, dice: random.Random) -> Message:
    return dice.choice((None, b"", b"k", dice.randbytes(15), dice.randbytes(17), key)), value


def _other(_key: Any, value: Any, dice: random.Random) -> Message:
    raw = (None, b"", b"null", b"[]", b"{}", b'"x"', b"0", TICK, b"[" * 5000, b"\xff\xfe{}")
    return dice.choice((None, dice.randbytes(16))), dice.choice((*raw, dice.randbytes(200), value))


_CHANGES: tuple[Callable[[Any, Any, random.Random], Message], ...] = (
    _bytes, _bytes, _cut, _splice, _field, _field, _field, _key, _other,
)  # fmt: skip
