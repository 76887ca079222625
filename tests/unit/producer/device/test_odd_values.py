"""Check that a device reports whatever the value of a number, of ordered labels or of a list is."""

from __future__ import annotations

import math
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest

from calmstream import MemoryStore
from calmstream.estimators.domain import Domain
from calmstream.estimators.mechanisms.registry import standard
from calmstream.estimators.plan import Group, Plan
from calmstream.estimators.plan.limits import STANDARD
from calmstream.estimators.randomness import SeededRandomness
from calmstream.estimators.view import View
from calmstream.estimators.wire.report import decode_report
from tests.support.producer import START, make_plan, unsigned_reporter

DOMAIN = Domain.from_dictionary(
    [
        {"name": "ms", "kind": "number", "unit": "ms", "edges": [1, 10, 100],
         "below": True, "above": True, "other": "unknown"},
        {"name": "age", "kind": "number", "unit": "years", "edges": [18, 50, 90],
         "rounding": "grid"},
        {"name": "size", "kind": "ordered", "labels": ["s", "m", "l"], "other": "m"},
        {"name": "apps", "kind": "choices", "options": ["mail", "rest"], "other": "rest"},
        {"name": "tags", "kind": "choices", "options": ["new"]},
    ]
)  # fmt: skip
MS, AGE, SIZE, MAIL, REST, NEW = range(6)
RANDOM = None  # the value has no code: the device draws one


def plan_about(j: int) -> Plan:
    cells = DOMAIN.cardinalities[j]
    group = Group(standard("grr", "1", cells), (View((j,)),), (1,))
    return replace(
        make_plan(epsilon="16"), domain=DOMAIN, groups=(group,), marginals=((j,),), limits=STANDARD
    )


def reported(j: int, record: dict[str, object], seed: int = 5) -> int:
    plan = plan_about(j)
    reporter = unsigned_reporter(
        plan, MemoryStore(), randomness=SeededRandomness(seed), clock=lambda: (START + 3) * 1000
    )
    report = reporter.report(record)
    assert report is not None
    assert decode_report(plan, report.encode(plan))[0] == 0
    (column,) = report.columns.values()
    return int(column[0])


class Hostile:
    def __eq__(self, other: object) -> bool:
        raise RuntimeError("no")

    def __hash__(self) -> int:
        raise RuntimeError("no")

    def __float__(self) -> float:
        raise RuntimeError("no")


class HostileList(list[object]):
    def __iter__(self) -> object:  # type: ignore[override]
        raise RuntimeError("no")

    def __contains__(self, item: object) -> bool:
        raise RuntimeError("no")


CASES: list[tuple[int, object, int | None]] = [
    (MS, 50, 2),
    # Beyond the edges, and of another unit's magnitude: seconds or nanoseconds for milliseconds.
    (MS, -1e300, 0), (MS, 0.05, 0), (MS, 5e10, 3), (MS, 10**400, 3), (MS, np.float32(5), 1),
    (MS, math.nan, 4), (MS, math.inf, 4), (MS, -math.inf, 4), (MS, np.float64("nan"), 4),
    (MS, "50", 4), (MS, "", 4), (MS, b"50", 4), (MS, None, 4), (MS, True, 4), (MS, [50], 4),
    (MS, {"ms": 50}, 4), (MS, Decimal(50), 4), (MS, 50j, 4), (MS, Hostile(), 4),
    (AGE, 17.9, 0), (AGE, 1e9, 2), (AGE, -5, 0), (AGE, 90, 2),
    (AGE, math.nan, RANDOM), (AGE, math.inf, RANDOM), (AGE, "40", RANDOM), (AGE, [], RANDOM),
    (SIZE, "l", 2), (SIZE, "xl", 1), (SIZE, 3, 1), (SIZE, None, 1), (SIZE, ["l"], 1),
    (SIZE, math.nan, 1),
    (MAIL, [], 0), (MAIL, ["mail"], 1), (MAIL, ["mail"] * 100_000, 1), (MAIL, {"mail"}, 1),
    (MAIL, ["games"] * 100_000, 0), (MAIL, "mail", RANDOM), (MAIL, None, RANDOM),
    (MAIL, 7, RANDOM), (MAIL, HostileList(), RANDOM), (MAIL, [Hostile()], RANDOM),
    (MAIL, [np.zeros(3)], RANDOM),
    (REST, ["games"] * 100_000, 1), (REST, [None], 1), (REST, [["mail"]], 1), (REST, [], 0),
    (REST, ["mail"], 0), (REST, list(range(100_000)), 1),
    (NEW, ["games"], 0), (NEW, ["new", "games"], 1), (NEW, {}, RANDOM),
]  # fmt: skip


@pytest.mark.parametrize(("attribute", "value", "code"), CASES)
def test_every_value_gives_a_report(attribute: int, value: object, code: int | None) -> None:
    field = DOMAIN.attributes[attribute].field
    found = reported(attribute, {field: value})
    assert 0 <= found < DOMAIN.cardinalities[attribute]
    assert code is RANDOM or found == code


@pytest.mark.parametrize("attribute", range(6))
def test_a_record_without_the_field_gives_a_report(attribute: int) -> None:
    assert 0 <= reported(attribute, {}) < DOMAIN.cardinalities[attribute]


def test_what_has_no_code_becomes_every_code() -> None:
    found = {reported(AGE, {"age": math.nan}, seed) for seed in range(60)}
    assert found == {0, 1, 2}
