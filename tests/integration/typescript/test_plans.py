"""The edge in TypeScript reads and refuses the same plans as Python's."""

from __future__ import annotations

import base64
import json
import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import orjson
import pytest

from calmstream import read_device_plan
from calmstream.common.errors import PlanError
from calmstream.estimators.recorded import TAKES
from tests.property.producer.test_device_plan_fuzz import DOCUMENTS, change, damage, places
from tests.support.attacks.hostile_plans import CASES, bloom, whole
from tests.support.typescript.cases import SPECS, plans
from tests.support.typescript.package import answers

PLANS = 4000


def verdict(raw: bytes) -> str:
    """What `edge/typescript/test/tools/read.ts` must answer: `refused`, or digest and form."""
    try:
        plan = read_device_plan(raw)
    except PlanError:
        return "refused"
    return f"{plan.digest} canonical" if plan.to_bytes() == raw else "other"


def agrees(expected: str, answer: str) -> bool:
    """Whether an answer says the same; the digest of bytes in another form is not compared."""
    if expected == "refused":
        return answer.startswith("refused")
    if expected == "other":
        return answer.endswith(" other")
    return answer == expected


def disagreements(plans: list[bytes], answers: list[str]) -> Iterator[str]:
    for raw, answer in zip(plans, answers, strict=True):
        expected = verdict(raw)
        if not agrees(expected, answer):
            yield f"expected {expected!r}, got {answer!r} for {raw[:3000]!r}"


def documents() -> list[bytes]:
    of_mechanisms = [plan.to_bytes() for name in SPECS for plan in plans(name)[::4]]
    return [*map(sorted_fields, DOCUMENTS), *of_mechanisms]


def sorted_fields(raw: bytes) -> bytes:
    return orjson.dumps(orjson.loads(raw), option=orjson.OPT_SORT_KEYS)


def changed(raw: bytes, dice: random.Random) -> bytes:
    if dice.random() < 0.25:
        return damage(raw, dice)
    plan = orjson.loads(raw)
    for _ in range(dice.choice((1, 1, 1, 2, 3))):
        change(plan, dice)
    if dice.random() < 0.2:  # another spelling: spaces, escapes, the order of the document
        return json.dumps(plan).encode()
    return orjson.dumps(plan, option=orjson.OPT_SORT_KEYS)


def read(raws: list[bytes], timeout: float = 300.0) -> list[str]:
    return answers("read", [base64.b64encode(raw).decode() for raw in raws], timeout)


def test_changed_plans() -> None:
    dice = random.Random(11)
    good = documents()
    raws = good + [changed(dice.choice(good), dice) for _ in range(PLANS)]
    found = read(raws)
    assert list(disagreements(raws, found)) == []
    assert all(answer.endswith(" canonical") for answer in found[: len(good)])
    verdicts = Counter(answer.split()[0 if answer.startswith("refused") else 1] for answer in found)
    assert verdicts["refused"] > PLANS / 2
    assert verdicts["canonical"] > PLANS / 40
    assert verdicts["other"] > 2


@pytest.mark.slow
def test_every_integer_at_its_bounds() -> None:
    raws = []
    for good in documents():
        plan = orjson.loads(good)
        values = bounds(plan)
        for container, key in list(places(plan)):
            kept = container[key]
            if type(kept) is not int:
                continue
            for value in {*values, kept - 1, kept + 1, 2 * kept}:
                container[key] = value
                raws.append(orjson.dumps(plan))
            container[key] = kept
    raws = random.Random(5).sample(raws, 6000)
    found = read(raws)
    assert list(disagreements(raws, found)) == []
    assert sum(answer.endswith(" canonical") for answer in found) > 500


def bounds(plan: dict[str, Any]) -> set[int]:
    window, start, expires = plan["window"], plan["start"], plan["expires"]
    ends = {2**power for power in (8, 10, 16, 24, 32, 40)} | {0, 1, 1000 * window, 10_000}
    near = {end + step for end in ends for step in (-1, 0, 1)}
    return near | {start, start + window, expires, expires - window, expires + window}


def test_the_size_of_state_records_decides_alike() -> None:
    """Around the bound: counters grow with users and windows, records with open windows."""
    raws = []
    for cells in (2**17, 3 * 2**16, 2**18):
        mechanism = {"name": "oue", "cells": cells}
        plan = orjson.loads(whole((512, cells // 512), mechanism))
        raws += [
            orjson.dumps(
                {**plan, "users": users, "grace": grace, "skew": 7200, "expires": 3600 * windows},
                option=orjson.OPT_SORT_KEYS,
            )
            for users in (1, 10**3, 10**7, 10**15)
            for grace in (0, 1, 3600, 3601, 36_000)
            for windows in (1, 2, 3, 10**4)
        ]
    found = read(raws)
    assert list(disagreements(raws, found)) == []
    refused = sum(answer.startswith("refused") for answer in found)
    assert 20 < refused < len(raws) - 20


def test_the_work_of_all_groups_decides_alike() -> None:
    """A group of three axes of 200 values takes 16 · 603 hashes; 2^20 are allowed."""
    groups = 2**20 // (16 * 603)
    raws = [
        sorted_fields(whole([200] * 3, *[bloom([200] * 3, 64, 16)] * count))
        for count in (groups, groups + 1)
    ]
    found = read(raws)
    assert list(disagreements(raws, found)) == []
    assert [answer.startswith("refused") for answer in found] == [False, True]


def test_the_statistics_of_published_tables_are_read_alike() -> None:
    good = ["mean", "median", "rank", "q0.9", "q0.25", "q0.000000001"]
    odd: list[Any] = [
        *("mode", "Mean", "q0", "q0.0", "q0.90", "q1.5", "q.5", "q0.0000000001", "q0.٣", "mean\n"),
        *("", "share:1+", 1, None, ["mean"], {}, good[0]),
    ]
    lists: list[Any] = [good, *[[one] for one in good], [], "mean", {}, None, 1]
    lists += [["mean", one] for one in odd] + [
        [f"q0.{i}" for i in range(11, 11 + n)] for n in (8, 9)
    ]
    plan = orjson.loads(DOCUMENTS[0])
    raws = [orjson.dumps({**plan, "summaries": one}, option=orjson.OPT_SORT_KEYS) for one in lists]
    found = read(raws)
    assert list(disagreements(raws, found)) == []
    assert sum(answer.endswith(" canonical") for answer in found) == len(good) + 2


HIDDEN, SEEN = "a\u202eb", "می\u200cخ"


def with_text(text: str) -> list[dict[str, Any]]:
    """Plans with a text in each place where people judge by it."""
    plan = orjson.loads(DOCUMENTS[0])
    number = {"name": "n", "kind": "number", "edges": ["0", "1", "2"], "unit": "s"}
    number |= {"rounding": "bin", "below": False, "above": False}
    choice = {"name": "c", "kind": "choices", "options": ["x", "y"]}
    more = [
        {"name": text, "labels": ["0", "1"]},
        {**number, "unit": text},
        {**choice, "name": text},
        {**choice, "options": ["x", text]},
    ]
    domains = [[*plan["domain"], entry] for entry in more]
    return [{**plan, name: text} for name in ("purpose", "owner", "lineage_name")] + [
        {**plan, "domain": domain} for domain in domains
    ]


def test_texts_by_which_people_cannot_judge_are_refused_alike() -> None:
    raws = [
        orjson.dumps(plan, option=orjson.OPT_SORT_KEYS)
        for text in (SEEN, HIDDEN)
        for plan in with_text(text)
    ]
    found = read(raws)
    assert list(disagreements(raws, found)) == []
    half = len(found) // 2
    assert all(answer.endswith(" canonical") for answer in found[:half])
    assert all(answer.startswith("refused") for answer in found[half:])


TAKEN = [{"event": "e", "take": take, "over": over} for take in TAKES for over in ("1d", "90d")]
NOT_TAKEN: list[Any] = [
    *(None, {}, [], "export", {"state": ""}, {"state": 1}, {"state": "s" * 129}, {"state": HIDDEN}),
    *({"event": "e"}, {"event": "e", "take": "days"}, {**TAKEN[0], "state": "s"}),
    *({**TAKEN[0], "over": over} for over in ("0d", "91d", "07d", "7", "7h", "1d\n", "٧d", 7)),
    *({**TAKEN[0], "take": take} for take in ("mean", "Days", "", None, 1)),
]


def test_what_is_recorded_is_read_alike() -> None:
    number = {"name": "n", "kind": "number", "edges": ["0", "1", "2"], "unit": "s"}
    number |= {"rounding": "bin", "below": False, "above": False}
    entries = (
        number,
        {"name": "c", "kind": "choices", "options": ["x", "y"]},
        {"name": "t", "labels": ["no", "yes", "?"]},
        {"name": "t", "labels": ["a", "b"], "kind": "ordered"},
    )
    states = [{"state": "s"}, {"state": "\U0001f600" * 128}]
    plan = orjson.loads(DOCUMENTS[0])
    raws = [
        orjson.dumps({**plan, "domain": [*plan["domain"], {**entry, "from": recorded}]})
        for entry in entries
        for recorded in (*states, *TAKEN, *NOT_TAKEN)
    ]
    raws = [sorted_fields(raw) for raw in raws]
    found = read(raws)
    assert list(disagreements(raws, found)) == []
    good = sum(answer.endswith(" canonical") for answer in found)
    # A choice takes states only, and labels that are not yes and no take no `any`.
    assert good == 4 * len(states) + 3 * len(TAKEN) - 2


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_plans_that_are_written_to_harm(name: str) -> None:
    raw = CASES[name]()
    (answer,) = read([raw], timeout=60.0)
    assert agrees(verdict(raw), answer), answer
