from __future__ import annotations

from dataclasses import replace

import pytest

from calmstream.common.errors import PlanError
from calmstream.estimators.domain import Domain
from calmstream.estimators.plan import Guarantee
from calmstream.estimators.plan.document import read_plan
from calmstream.estimators.planning import require_answers
from tests.support.plans import draft, mixed_domain


def test_a_draft_is_a_valid_plan_with_the_defaults() -> None:
    plan, design = draft(
        mixed_domain(2, 3, 4), "0.5", 1234, 2, windows=7, guarantee=Guarantee("w-event", 3)
    )
    assert read_plan(plan.to_bytes()) == plan
    assert plan.marginals == ((0,), (1,), (2,), (0, 1), (0, 2), (1, 2))
    assert (plan.windows, plan.users, plan.guarantee.windows) == (7, 1234, 3)
    assert plan.groups == design.groups
    assert (plan.method, plan.parameters) == ("calm", {"theta": "0.001"})
    assert float(design.parameters["theta"]) == 0.001


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"epsilon": "0"}, "epsilon must"),
        ({"k": 5}, "k: expected 1 to 4, the number of attributes, got 5"),
        ({"users": 0}, "users: expected 1 to"),
        ({"max_groups": 257}, "max_groups: expected 1 to 256"),
        ({"windows": 0}, "windows: expected at least 1"),
        ({"method": "magic"}, "unknown method 'magic'; there are am, "),
        ({"method": "uniform"}, "uniform is for evaluation only"),
        ({"marginals": ((9,),)}, "is not a set of attributes"),
    ],
)
def test_refusals(changes: dict[str, object], message: str) -> None:
    with pytest.raises(PlanError, match=message) as refusal:
        draft(Domain.binary(4), **changes)
    assert "\n" not in str(refusal.value)


VIEWS = ["am", "marg-rr", "marg-ps", "marg-ht", "ft", "inp-ht"]
RECORDS = ["rr-joint", "rr-ind-joint", "rr-hybrid", "rr-truncated", "inp-em", "lopub"]


@pytest.mark.parametrize("method", [*VIEWS, *RECORDS])
def test_a_marginal_that_the_tables_cannot_answer_is_refused(method: str) -> None:
    # Of 14 binary attributes the pairs are smaller than the joint, so only they are collected.
    domain = Domain.binary(14)
    message = "nothing was collected about a0, a1, a2 together"
    if method in RECORDS:
        message = "counts no table that contains a0, a1, a2"
    wanted = ((0,), (3, 7), (0, 1, 2))
    with pytest.raises(PlanError, match=message) as refusal:
        draft(domain, "8", method=method, marginals=wanted)
    assert "\n" not in str(refusal.value)
    plan, _ = draft(domain, "8", method=method)
    require_answers(plan)
    narrow, _ = draft(domain, "8", k=1, method=method)
    assert narrow.marginals[:14] == tuple((i,) for i in range(14))
    assert len(narrow.marginals) == (14 if method in VIEWS else 14 + 91)
    with pytest.raises(PlanError, match=message):
        require_answers(replace(plan, marginals=wanted))


def test_published_tables_are_limited() -> None:
    with pytest.raises(PlanError, match=r"table over a0, a1, .* has 2,097,152 cells"):
        draft(Domain.binary(21), marginals=(tuple(range(21)),))
