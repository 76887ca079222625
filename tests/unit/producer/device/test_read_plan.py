"""A device reads or refuses a plan at low cost, and can report under all that it has read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest

from calmstream import MemoryStore, read_device_plan
from calmstream.common.errors import PlanError
from calmstream.estimators.domain import Domain
from calmstream.estimators.plan.document import read_plan
from calmstream.estimators.plan.pilots import MAX_COUNTERS, read_earlier
from calmstream.producer.device import read_plan as device_plan
from calmstream.producer.device.read_plan import MAX_DEPTH
from tests.support.attacks import hostile_plans
from tests.support.attacks.hostile_plans import CASES, MAX_RSS, bloom, document, read_apart, whole
from tests.support.plans import draft
from tests.support.producer import unsigned_reporter

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="peak memory is read from /proc"
)


@pytest.mark.parametrize(
    "name",
    [n if i % 4 == 0 else pytest.param(n, marks=pytest.mark.slow) for i, n in enumerate(CASES)],
)
def test_a_hostile_plan_is_refused_or_read_and_then_reports(name: str) -> None:
    outcome = read_apart(CASES[name]())
    assert outcome["rss"] <= MAX_RSS
    if "refused" in outcome:
        assert len(outcome["refused"]) <= 300
        assert "\n" not in outcome["refused"]
    else:
        assert outcome["reported"]
        assert outcome["report_rss"] <= MAX_RSS


def test_some_hostile_plans_are_read() -> None:
    small = [name for name in CASES if name.endswith(("in 26 bits", "oue of 2^18", "43 groups"))]
    assert [read_device_plan(CASES[name]()).version for name in small] == [1] * 3


def test_the_largest_pilot_is_read() -> None:
    """All counters that a plan may carry, of seven digits each: more than 2 MB."""
    domain = Domain.binary(64)
    cells = 16
    views = [{"attributes": [i, i + 1, i + 2, i + 3], "share": 1} for i in range(61)]
    groups, tallies, left = [], [], MAX_COUNTERS
    while left >= cells:
        some = views[: min(len(views), left // cells)]
        left -= cells * len(some)
        groups.append({"mechanism": {"name": "oue", "cells": cells}, "views": some})
        n = [9_999_999] * len(some)
        tallies.append({"n": n, "counts": [[1_234_567] * cells] * len(some)})
    pilot = {"plan": "0" * 64, "epsilon": "1", "groups": groups, "tallies": tallies}
    plan, _ = draft(domain)
    method = {"name": "noise-aware", "parameters": {"pilots": [pilot]}}
    raw = orjson.dumps(plan.to_json() | {"method": method})
    assert len(raw) > 2_000_000
    read = read_device_plan(raw)
    assert sum(tally.counts.size for tally in read_earlier(read.parameters, domain)[0].tallies) > (
        0.99 * MAX_COUNTERS
    )


def nested(levels: int) -> bytes:
    parameters: Any = 0
    for _ in range(levels):
        parameters = [parameters]
    return orjson.dumps(document(method={"name": "uniform", "parameters": {"x": parameters}}))


def test_levels_are_counted() -> None:
    outside = 3  # the plan, its method, the parameters
    assert read_device_plan(nested(MAX_DEPTH - outside)).version == 1
    with pytest.raises(PlanError, match="nested more than 32"):
        read_device_plan(nested(MAX_DEPTH - outside + 1))


TRICKY = [
    "[" * 100, "]" * 100 + "{" * 100, '"' * 50, "\\" * 51, '\\"[[[[', '\\\\"', ",:" * 100,
    "\\u0022[", "é😀[", '"[' * 40, "\\" * 3 + '"' + "[" * 99,
]  # fmt: skip


@pytest.mark.parametrize("text", TRICKY)
@pytest.mark.parametrize("dumps", ["orjson", "ascii"])
def test_characters_of_a_text_do_not_count_as_tokens(
    text: str, dumps: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import json

    plain = document()
    tricky = document(purpose=text, owner=text)
    encode: Any = orjson.dumps if dumps == "orjson" else lambda d: json.dumps(d).encode()
    tokens = sum(encode(plain).count(c) for c in (b",", b":", b"[", b"{"))
    monkeypatch.setattr(device_plan, "MAX_TOKENS", tokens)
    assert read_device_plan(encode(plain)).purpose == "x"
    assert read_device_plan(encode(tricky)).purpose == text
    monkeypatch.setattr(device_plan, "MAX_TOKENS", tokens - 1)
    with pytest.raises(PlanError, match="values; a device reads"):
        read_device_plan(encode(tricky))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("MAX_DEVICE_PLAN_BYTES", "bytes; a device reads"),
        ("MAX_CONTAINERS", "lists and objects; a device reads"),
        ("MAX_VIEWS", "1 views; a device reads"),
        ("MAX_REPORT_BYTES", r"groups\[0\]: a report takes \d+ bytes"),
        ("MAX_RANDOM_BYTES", r"groups\[0\]: a report takes \d+ random bytes"),
    ],
)
def test_every_limit_limits(name: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    raw = orjson.dumps(document())
    monkeypatch.setattr(device_plan, name, 0)
    with pytest.raises(PlanError, match=message):
        read_device_plan(raw)


def test_the_work_of_all_groups_is_summed() -> None:
    one = bloom([1500], 40, 16)
    assert len(read_device_plan(whole([1500], *[one] * 43)).groups) == 43
    with pytest.raises(PlanError, match=r"groups\[43\].*1,056,704 hashes"):
        read_device_plan(whole([1500], *[one] * 44))


def test_work_is_refused_before_it_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    from calmstream.estimators.papers.lopub import bloom_rr

    monkeypatch.setattr(bloom_rr, "facts", None)
    for name in ("bloom, 2 by 2^20", "bloom, 2^20", "bloom, 65535"):
        with pytest.raises(PlanError, match="a report takes"):
            read_device_plan(hostile_plans.CASES[name]())


def test_a_mechanism_that_cannot_report_is_no_plan() -> None:
    with pytest.raises(PlanError, match="same filter"):
        read_device_plan(whole([16], bloom([16], 4, 4)))
    absurd = orjson.loads(whole([2], bloom([2], 2, 1)))
    absurd |= {"epsilon": "128", "lineage_epsilon": "128"}
    with pytest.raises(PlanError, match="more than 16 per part"):
        read_device_plan(orjson.dumps(absurd))


def test_a_service_reads_what_a_device_refuses() -> None:
    """Cheaply: no table of a sketch or filter is made for reading."""
    sketch = {"name": "hadamard-sketch", "cells": 1 << 24, "hashes": 64, "buckets": 4096, "seed": 0}
    plan = read_plan(whole((4096, 4096), sketch))
    assert "places" not in vars(plan.mechanisms[0])
    plan = read_plan(whole((128, 128), bloom([1 << 14], 64, 15)))
    assert not {"filters", "grams"} & set(vars(plan.mechanisms[0]))
    report = unsigned_reporter(plan, MemoryStore(), clock=lambda: 0).report({})
    assert report is not None
    assert np.unpackbits(report.columns["b0"]).size == 64
