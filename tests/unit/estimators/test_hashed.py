from __future__ import annotations

import hashlib
from fractions import Fraction
from math import e
from typing import Any

import numpy as np
import orjson
import pytest

from calmstream.common.errors import DomainError, PlanError
from calmstream.estimators.domain import Domain
from calmstream.estimators.hashed import Hashed, text_bytes
from calmstream.estimators.mechanisms.registry import standard
from calmstream.estimators.plan import Group
from calmstream.estimators.plan.document import plan_of
from calmstream.estimators.randomness import SeededRandomness
from calmstream.estimators.view import View
from tests.support.plans import draft
from tests.unit.estimators.plan.test_schemas import PLAN

PLACE = {"name": "place", "labels": ["a", "b"]}
CRASH = {
    "name": "crash",
    "kind": "hashed",
    "buckets": 10,
    "hashes": 9,
    "from": {"state": "last crash"},
}
LINEAGE = "000102030405060708090a0b0c0d0e0f"


def domain(**changes: Any) -> Domain:
    return Domain.from_json([PLACE, {**CRASH, **changes}])


def expected(text: str, j: int, buckets: int = 10) -> int:
    """The bucket by the definition, on its own."""
    message = b"calmstream/1/hashed/" + bytes.fromhex(LINEAGE) + b"crash#%d\0" % (j // 8)
    digest = hashlib.sha256(message + text.encode()).digest()
    return int.from_bytes(digest[4 * (j % 8) :][:4], "big") * buckets // 2**32


def test_it_is_an_attribute_for_each_hash() -> None:
    found = domain()
    assert found.to_json() == [PLACE, CRASH]
    assert found.names == ("place", *(f"crash#{j}" for j in range(9)))
    assert found.cardinalities == (2, *[10] * 9)
    assert (found.ordinary, found.hashed) == (1, {"crash": tuple(range(1, 10))})
    assert {a.field for a in found.attributes[1:]} == {"crash"}


@pytest.mark.parametrize(
    "entries",
    [
        [{**CRASH, "buckets": 1}, PLACE],
        [PLACE, {**CRASH, "buckets": 4097}],
        [PLACE, {**CRASH, "hashes": 0}],
        [PLACE, {**CRASH, "hashes": 65}],
        [PLACE, {**CRASH, "hashes": True}],
        [PLACE, {**CRASH, "other": "0"}],
        [PLACE, {**CRASH, "from": {"event": "crash", "take": "last", "over": "7d"}}],
        [CRASH, PLACE],
        [CRASH],
    ],
)
def test_what_cannot_be_asked_is_refused(entries: list[Any]) -> None:
    with pytest.raises(DomainError, match=r"hash|bucket|text|unknown field"):
        Domain.from_json(entries)


def test_half_of_the_hashes_is_no_attribute() -> None:
    with pytest.raises(DomainError, match="use all"):
        Domain(domain().attributes[:5])


def test_buckets_are_those_of_the_definition() -> None:
    keyed = domain().keyed(LINEAGE)
    texts = ["a", "null pointer", "größe", "ё", "😀", "x" * 1024]
    for j in range(9):
        wanted = [expected(text, j) for text in texts]
        assert [keyed.code(1 + j, text) for text in texts] == wanted
    kind = keyed.attributes[1].kind
    assert isinstance(kind, Hashed)
    assert kind.all_buckets([t.encode() for t in texts]).tolist() == [
        [expected(text, j) for j in range(9)] for text in texts
    ]


def test_equal_texts_have_one_spelling_and_what_is_no_text_has_no_bucket() -> None:
    assert text_bytes("e\u0301") == text_bytes("\u00e9") == b"\xc3\xa9"
    for none in ("", None, 7, b"a", "\ud800", "x" * 1025, "é" * 513, "x" * 10_000_000):
        assert text_bytes(none) is None
        assert domain().code(1, none) is None


def test_a_table_has_random_buckets_where_it_has_no_text() -> None:
    columns = {"place": ["a"] * 400, "crash": ["boom", None] * 200}
    with pytest.raises(DomainError, match="row 2"):
        domain().encode(columns)
    codes = domain().encode(columns, SeededRandomness(1))
    assert np.ptp(codes[::2, 1:], axis=0).max() == 0
    assert all(len(np.unique(codes[1::2, 1 + j])) == 10 for j in range(9))


def test_a_plan_reports_each_hash_alone_and_with_each_other_attribute() -> None:
    plan, _ = draft(domain(), lineage=LINEAGE, users=100_000)
    views = [view.attributes for group in plan.groups for view in group.views]
    assert sorted(views) == sorted(
        [(0,), *((j,) for j in range(1, 10)), *((0, j) for j in range(1, 10))]
    )
    assert plan.marginals == ((0,),)
    assert plan.domain.code(1, "a") == expected("a", 0)
    # One of three tables of one or two attributes is without it.
    assert plan.ordinary.users == pytest.approx(33_333, abs=10)
    assert plan.ordinary.domain.names == ("place",)
    again = plan_of(orjson.loads(plan.to_bytes()))
    assert (again.digest, again.domain.code(1, "a")) == (plan.digest, expected("a", 0))
    PLAN.validate(plan.to_json())


@pytest.mark.parametrize(
    "method", ["noise-aware", "calm", "marg-ps", "inp-ht", "rr-joint", "lopub"]
)
def test_every_method_leaves_it_to_the_plan(method: str) -> None:
    alone, _ = draft(Domain.from_json([PLACE]), method=method, k=1)
    plan, _ = draft(domain(), method=method, k=1)
    assert plan.ordinary.groups[0].mechanism == alone.groups[0].mechanism


def test_plans_with_other_views_of_hashes_are_refused() -> None:
    plan, _ = draft(domain())
    document = plan.to_json()
    hashed = Group(standard("grr", "1", 10), (View((1,)),), (1,)).to_json()
    two = Group(standard("grr", "1", 100), (View((1, 2)),), (1,)).to_json()
    parity = Group(standard("grr", "1", 2), (View((1,), "parity", (1,)),), (1,)).to_json()
    first = document["groups"][0]
    for groups in ([hashed, first], [first, two], [first, parity], [hashed]):
        with pytest.raises(PlanError, match="groups"):
            plan_of({**document, "groups": groups})
    with pytest.raises(PlanError, match="marginals"):
        plan_of({**document, "marginals": [[0, 1]]})


def test_no_report_tells_two_texts_apart_by_more_than_epsilon() -> None:
    plan, _ = draft(domain(buckets=4, hashes=3), lineage=LINEAGE, method="noise-aware")
    texts, worst = [f"word {i}" for i in range(40)], Fraction(0)
    for group, mechanism in zip(plan.groups, plan.mechanisms, strict=True):
        channel = mechanism.channel()
        for view in group.views:
            codes = np.array(
                [[p, *(plan.domain.code(j, t) for j in (1, 2, 3))] for p in (0, 1) for t in texts]
            )
            rows = [channel[x] for x in set(view.inputs(codes, plan.domain).tolist())]
            ratios = (max(column) / min(column) for column in zip(*rows, strict=True))
            worst = max(worst, *ratios)
    assert 0.99 * e < worst <= e
