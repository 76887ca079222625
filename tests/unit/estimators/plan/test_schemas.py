from __future__ import annotations

import copy
from collections.abc import Callable
from importlib.resources import files
from typing import Any

import orjson
import pytest
from jsonschema import Draft202012Validator

from calmstream.common.errors import CalmstreamError
from calmstream.consumer.publish.build import build_set
from calmstream.consumer.publish.merge import MergedWindow
from calmstream.estimators.plan.document import read_plan
from calmstream.estimators.wire.snapshot import Kind, decode
from tests.support.plans import COLLECTED, draft, mixed_domain, put
from tests.support.publisher import count_of, published_plan


def validator(name: str) -> Draft202012Validator:
    schema = orjson.loads(
        files("calmstream.estimators.schemas").joinpath(f"{name}.schema.json").read_bytes()
    )
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


PLAN = validator("plan-1")
SNAPSHOT = validator("snapshot-1")


@pytest.mark.parametrize("method", COLLECTED)
def test_plans_of_every_method_are_valid_and_read_as_written(method: str) -> None:
    plan, _ = draft(mixed_domain(2, 4, 3), method=method)
    PLAN.validate(orjson.loads(plan.to_bytes()))
    assert read_plan(plan.to_bytes()) == plan


VIEWS = ("groups", 0, "views")
SIGN: dict[str, Any] = {"attributes": [0], "share": 1, "character": [1]}
BROKEN_PLANS = {
    "unknown field": put("colour", "red"),
    "other version": put("version", 3),
    "upper-case name": put("name", "Adult"),
    "long name": put("name", "a" * 49),
    "short lineage": put("lineage", "0" * 31),
    "epsilon as number": put("epsilon", 1.0),
    "negative epsilon": put("epsilon", "-1"),
    "memoised": put("guarantee", {"kind": "memoised", "windows": 1}),
    "unknown guarantee": put("guarantee", "kind", "maybe"),
    "once in two windows": put("guarantee", {"kind": "once", "windows": 2}),
    "w-event of one": put("guarantee", {"kind": "w-event", "windows": 1}),
    "guarantee with more": put("guarantee", "since", 3),
    "one label": put("domain", 0, "labels", ["only"]),
    "two equal labels": put("domain", 0, "labels", ["a", "a"]),
    "unnamed attribute": put("domain", 0, "name", ""),
    "attribute with more": put("domain", 0, "colour", "red"),
    "no groups": put("groups", []),
    "no views": put(*VIEWS, []),
    "share of zero": put(*VIEWS, 0, "share", 0),
    "mechanism without a name": put("groups", 0, "mechanism", {"cells": 4}),
    "parity and character": put(*VIEWS, [SIGN | {"parity": [1], "modulus": 2}]),
    "character without modulus": put(*VIEWS, [SIGN]),
    "attribute twice in a view": put(*VIEWS, 0, "attributes", [0, 0]),
    "window of zero": put("window", 0),
    "fractional window": put("window", 0.5),
    "no partitions": put("partitions", 0),
    "other wire": put("wire", 2),
    "no users": put("users", 0),
    "no marginals": put("marginals", []),
    "empty marginal": put("marginals", [[]]),
    "marginal twice": put("marginals", [[0], [0]]),
    "null k": put("k", None),
    "analysis as a word": put("analysis", "yes"),
    "a batch of none": put("limits", "batch_reports", 0),
    "a batch above the wire's": put("limits", "batch_reports", 65_537),
    "no batches": put("limits", "batches", 0),
    "another limit": put("limits", "records", 7),
    "a lineage without a name": put("lineage_name", ""),
    "a long lineage name": put("lineage_name", "a" * 129),
    "continues nothing": put("continues", []),
    "continues no lineage": put("continues", ["A" * 32]),
    "continues a number": put("continues", [7]),
    "continues one twice": put("continues", ["a" * 32] * 2),
    "continues nine": put("continues", [str(i) * 32 for i in range(9)]),
    "a fraction as a number": put("method", "parameters", {"theta": 0.5}),
    "an integer that not all readers hold": put("method", "parameters", {"theta": 1 << 53}),
}


MESSAGES = {
    "unknown field": "plan: unknown field 'colour'",
    "upper-case name": "name: expected 1 to 48",
    "short lineage": "lineage: expected 32",
    "epsilon as number": "plan.epsilon: expected a string",
    "memoised": "guarantee.kind: memoised reports are not offered",
    "unknown guarantee": "guarantee.kind: expected once or w-event, got 'maybe'",
    "one label": "needs 2 to 4096 labels",
    "window of zero": "window must be at least 1 s",
    "no partitions": "partitions: expected 1 to 1024, got 0",
    "other wire": "wire: this version speaks major 1, the plan 2",
}


@pytest.mark.parametrize("name", BROKEN_PLANS)
def test_broken_plans_are_refused_by_schema_and_code(name: str) -> None:
    document = copy.deepcopy(orjson.loads(published_plan().to_bytes()))
    BROKEN_PLANS[name](document)
    assert not PLAN.is_valid(document)
    with pytest.raises(CalmstreamError, match=MESSAGES.get(name)) as refusal:
        read_plan(orjson.dumps(document))
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("field", sorted(published_plan().to_json()))
def test_a_plan_lacks_nothing(field: str) -> None:
    document = orjson.loads(published_plan().to_bytes())
    del document[field]
    assert not PLAN.is_valid(document)
    with pytest.raises(CalmstreamError, match=f"plan: missing field '{field}'"):
        read_plan(orjson.dumps(document))


def values(kind: Kind, reports: int = 50) -> list[dict[str, Any]]:
    counts = (count_of([0, 1, 3] * reports, rejects=2), count_of([2] * reports))
    built = build_set(published_plan(), MergedWindow(1, kind, (5, 6, 7, 8), counts))
    return [orjson.loads(value) for _, value in [*built.tables(), built.closing()]]


@pytest.mark.parametrize("kind", list(Kind))
def test_snapshots_of_every_kind_are_valid(kind: Kind) -> None:
    for value in values(kind):
        SNAPSHOT.validate(value)


BROKEN = {
    0: {
        "newer version": put("v", "2.0"),
        "other type": put("type", "cube"),
        "other kind": put("kind", "late"),
        "negative offset": put("revision", [1, -1, 0, 0]),
        "scalar revision": put("revision", 7),
        "negative error": put("stderr", [-0.1, 0.1]),
        "text in a table": put("table", ["0.5", "0.5"]),
        "not a number": put("table", [None, 1.0]),
        "no attributes": put("attributes", []),
        "fractional reports": put("reports", 1.5),
    },
    -1: {
        "newer version": put("v", "2.0"),
        "short digest": put("plan", "abc"),
        "epsilon as number": put("epsilon", 1),
        "memoised": put("guarantee", {"kind": "memoised", "windows": 1}),
        "negative count": put("groups", [1, -1]),
        "foreign key": put("marginals", ["a+b"]),
        "rejections as a list": put("rejected", ["late"]),
        "no software": put("software", ""),
        "counts as a number": put("counts", 1),
    },
}
"""Changes of a marginal and of the manifest."""


@pytest.mark.parametrize(
    ("place", "change"), [(p, c) for p, broken in BROKEN.items() for c in broken.values()]
)
def test_broken_snapshots_are_refused(place: int, change: Callable[[dict[str, Any]], None]) -> None:
    document = values(Kind.FINAL)[place]
    change(document)
    assert not SNAPSHOT.is_valid(document)


ADDED_SINCE = {"poisoning", "analysis", "counts"}
"""Fields of later minors, which older snapshots lack."""


@pytest.mark.parametrize("place", [0, -1], ids=["marginal", "manifest"])
def test_no_field_of_a_snapshot_may_be_absent(place: int) -> None:
    document = values(Kind.FINAL)[place]
    for field in document.keys() - ADDED_SINCE:
        short = {name: value for name, value in document.items() if name != field}
        assert not SNAPSHOT.is_valid(short), field
        with pytest.raises(CalmstreamError):
            decode(orjson.dumps(short), published_plan())
