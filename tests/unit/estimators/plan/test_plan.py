from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import orjson
import pytest

from calmstream.common.errors import PlanError
from calmstream.estimators.domain import Domain
from calmstream.estimators.mechanisms.registry import standard
from calmstream.estimators.plan import Group, Plan
from calmstream.estimators.plan.document import MAX_PLAN_BYTES, read_plan
from calmstream.estimators.view import View
from tests.support.plans import draft, mixed_domain, put

Document = dict[str, Any]


@pytest.fixture(scope="module")
def plan() -> Plan:
    made, _ = draft(mixed_domain(2, 3, 4), windows=24, window=3600, lineage_epsilon="2.5")
    return made


def edited(plan: Plan, edit: Callable[[Document], object]) -> bytes:
    document = copy.deepcopy(plan.to_json())
    edit(document)
    return orjson.dumps(document)


def test_round_trip_keeps_the_digest(plan: Plan) -> None:
    again = read_plan(plan.to_bytes())
    assert again == plan
    assert again.digest == plan.digest
    indented = orjson.dumps(plan.to_json(), option=orjson.OPT_INDENT_2)
    assert read_plan(indented).digest == plan.digest


def test_the_digest_depends_on_every_field(plan: Plan) -> None:
    changes = {
        "name": "other",
        "purpose": "other",
        "owner": "other",
        "lineage": "1" * 32,
        "epsilon": "1.5",
        "lineage_epsilon": "3",
        "k": 1,
        "start": 3600,
        "expires": plan.expires + 3600,
        "grace": 7,
        "skew": 7,
        "partitions": 2,
        "users": 5,
        "marginals": [[0]],
        "guarantee": {"kind": "w-event", "windows": 3},
    }
    digests = {read_plan(edited(plan, put(f, v))).digest for f, v in changes.items()}
    assert len(digests | {plan.digest}) == len(changes) + 1


# Of what the schema cannot see; `test_schemas` has the rest.
ATTRIBUTES = ("groups", 0, "views", 0, "attributes")
BAD = {
    "wrong type": (put("users", "many"), "plan.users: expected an integer, got 'many'"),
    "group is no object": (put("groups", 1, 7), r"groups\[1\]: expected an object"),
    "view not ascending": (
        put(*ATTRIBUTES, [1, 0]),
        r"groups\[0\].views\[0\]: the attributes of a view must ascend",
    ),
    "view beyond the domain": (put(*ATTRIBUTES, [0, 3]), "the domain does not have"),
    "cells do not fit": (
        put("groups", 0, "mechanism", "cells", 5),
        r"groups\[0\]: mechanism has 5 cells, view \[0, 1\] has 6",
    ),
    "unknown mechanism": (
        put("groups", 0, "mechanism", "name", "magic"),
        "unknown mechanism 'magic'",
    ),
    "a small lineage": (put("lineage_epsilon", "0.5"), "lineage_epsilon 0.5 is below epsilon 1"),
    "k above d": (put("k", 4), "k: expected 1 to 3"),
    "half a window": (put("expires", 1800), "a whole number of windows"),
    "grace without end": (put("grace", 10**9), "may not exceed a thousand windows"),
    "marginal beyond the domain": (put("marginals", [[5]]), "is not a set of attributes"),
}


@pytest.mark.parametrize("case", BAD)
def test_refusals_are_one_line_with_reason_and_place(plan: Plan, case: str) -> None:
    edit, message = BAD[case]
    with pytest.raises(PlanError, match=message) as refusal:
        read_plan(edited(plan, edit))
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("raw", [b"", b"{", b"\xff\xfe", b"[1]", b"null", b'"plan"'])
def test_what_is_no_plan_at_all(raw: bytes) -> None:
    with pytest.raises(PlanError, match=r"^plan: "):
        read_plan(raw)


@pytest.mark.parametrize(
    ("field", "again"),
    [("epsilon", b'"epsilon":"9",'), ("name", b'"name":"test",'), ("share", b'"share":7,')],
)
def test_a_field_may_not_stand_twice(plan: Plan, field: str, again: bytes) -> None:
    raw = plan.to_bytes()
    place = raw.index(b'"' + field.encode() + b'":')
    with pytest.raises(PlanError, match=f"plan: field '{field}' stands twice"):
        read_plan(raw[:place] + again + raw[place:])


def test_a_huge_document_is_not_parsed() -> None:
    with pytest.raises(PlanError, match="at most"):
        read_plan(b" " * (MAX_PLAN_BYTES + 1))


def test_a_state_record_beyond_the_limit_is_refused() -> None:
    cells = 1 << 20
    group = Group(standard("oue", "1", cells), (View(tuple(range(20))),), (1,))
    with pytest.raises(PlanError, match="state record could reach"):
        Plan(
            name="big", purpose="", owner="", lineage="0" * 32, domain=Domain.binary(20),
            epsilon="1", k=1, method="calm", parameters={}, groups=(group,), start=0, expires=60,
            window=60, users=10**6, marginals=((0,),),
        )  # fmt: skip


def test_too_many_groups_are_refused(plan: Plan) -> None:
    many = put("groups", [plan.to_json()["groups"][0]] * 257)
    with pytest.raises(PlanError, match="257 groups; at most 256"):
        read_plan(edited(plan, many))
