"""Sums over all lineages are exact, or never less than what was spent."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calmstream import Allotment, MemoryStore, Policy, Reporter, Status, set_policy
from calmstream.common.errors import InvalidInput
from calmstream.producer.device.control import install
from calmstream.producer.device.ledger import DeviceState
from calmstream.producer.device.policy import DAY
from calmstream.producer.device.totals import MAX_RECENT, DeviceTotals
from tests.support.producer import START, make_plan, unsigned_reporter
from tests.support.signed import Operator

A, B = Operator(), Operator(root_seed=7, key_seed=8)
SPAN = 365 * DAY
POLICY = Policy(span_days=10)


def left(totals: DeviceTotals, now: int, policy: Policy = POLICY, root: str = "") -> Decimal:
    return totals.remaining(policy, root, now).span


def test_many_reports_are_joined_and_count_no_less() -> None:
    totals, policy = DeviceTotals(), Policy(span_epsilon="100000")
    for second in range(MAX_RECENT + 500):
        totals = totals.add(second, "0.01", "a" if second % 3 else "b", second, policy)
    assert len(totals.recent) <= MAX_RECENT
    for now in (MAX_RECENT + 500, SPAN, SPAN + 1000, SPAN + MAX_RECENT):
        kept = sum(end > now - SPAN for end in range(MAX_RECENT + 500))
        assert left(totals, now, policy) <= 100_000 - kept * Decimal("0.01")
    assert left(totals, SPAN + MAX_RECENT + 500, policy) == 100_000


@given(
    steps=st.lists(
        st.tuples(
            st.integers(0, 30), st.integers(0, 40), st.sampled_from(["0.5", "1", "3"]),
            st.sampled_from(["", A.root, B.root]),
        ),
        max_size=40,
    )
)  # fmt: skip
@settings(max_examples=300, deadline=None)
def test_no_span_contains_more_than_the_policy_allows(
    steps: list[tuple[int, int, str, str]],
) -> None:
    """Any clocks and window ends: by the device's own account, and by a clock that only grows."""
    totals, made = DeviceTotals(), []
    for day, ahead, epsilon, root in steps:
        now = day * DAY
        if Decimal(epsilon) <= left(totals, now, root=root):
            totals = totals.add(now + ahead * DAY, epsilon, root, now, POLICY)
            made.append((totals.mark, Decimal(epsilon)))
    for last, _ in made:
        assert sum(e for at, e in made if last - 10 * DAY < at <= last) <= 8
    assert sum(map(Decimal, totals.spent_in_all.values())) == sum(e for _, e in made)


def test_a_longer_span_counts_what_was_dropped() -> None:
    store = MemoryStore(DeviceState(bytes(16)))
    install(store, POLICY)
    late = START + 20 * DAY
    for day, name in ((0, "a"), (20, "b")):
        plan = make_plan(name=name, lineage=name * 32, epsilon="3", start=START + day * DAY)
        device = unsigned_reporter(plan, store, None, lambda p=plan: p.start * 1000, policy=None)
        assert device.report({}) is not None
    assert len(store.read().totals.recent) == 1
    set_policy(store, Policy(span_days=30))
    assert store.read().totals.remaining(Policy(span_days=30), "", late).span == 2


def ask(operator: Operator | None, store: MemoryStore, name: str, **given: Any) -> Status:
    """Offer one plan, which is answered if the device is ready; return the status before."""
    if operator is None:
        plan: Any = make_plan(lineage=name.encode().hex().rjust(32, "0"), **given)
    else:
        plan = operator.sign(operator.plan(name, **given))
    device = Reporter(plan, store, clock=lambda: START * 1000, allow_unsigned=True)
    status = device.status()
    assert (device.report({}) is not None) == (status is Status.READY)
    return status


def test_an_allotment_is_spent_only_by_its_root() -> None:
    policy = Policy(roots=(A.root, B.root), allotments={A.root: Allotment("3")})
    for first, second, most in ((A, B, 3), (B, A, 5), (None, A, 5)):
        store = MemoryStore(DeviceState(bytes(16), policy=policy))
        answers = [ask(first, store, f"{n}") for n in range(8)]
        assert answers == [Status.READY] * most + [Status.SPAN_EPSILON] * (8 - most)
        assert ask(second, store, "x") is Status.READY
    both = [ask(operator, store, f"y{n}") for n in range(8) for operator in (A, B, None)]
    assert both.count(Status.READY) == 8 - 5 - 1
    assert sum(map(Decimal, store.read().totals.spent_in_all.values())) == 8


def test_the_limits_over_everything_hold_beside_an_allotment() -> None:
    """Where others had spent before the allotment was made."""
    store = MemoryStore(DeviceState(bytes(16), policy=Policy(roots=(A.root, B.root))))
    assert [ask(B, store, f"{n}") for n in range(7)] == [Status.READY] * 7
    set_policy(store, Policy(roots=(A.root, B.root), allotments={A.root: Allotment("3")}))
    assert ask(A, store, "a") is Status.READY
    assert ask(A, store, "b") is Status.SPAN_EPSILON


def test_unsigned_plans_count_in_the_totals_and_cannot_use_up_a_signed_lineage() -> None:
    policy = Policy(roots=(A.root,), span_epsilon="3")
    store = MemoryStore(DeviceState(bytes(16), policy=policy))
    signed = A.plan("a")
    stranger = make_plan(name="stranger", lineage=signed.lineage, lineage_epsilon="1")
    device = unsigned_reporter(stranger, store, None, lambda: START * 1000, policy=None)
    assert device.report({}) is not None
    assert ask(A, store, "a") is Status.READY
    assert ask(None, store, "b") is Status.READY
    assert ask(A, store, "c") is Status.SPAN_EPSILON


def test_what_was_spent_under_continued_lineages_counts() -> None:
    policy = Policy(roots=(A.root, B.root))
    store = MemoryStore(DeviceState(bytes(16), policy=policy))
    old = A.plan("old", lineage_epsilon="1.5").lineage
    random_lineage = "7" * 32
    assert ask(A, store, "old", lineage_epsilon="1.5") is Status.READY
    unsigned = make_plan(lineage=random_lineage, lineage_epsilon="9")
    device = unsigned_reporter(unsigned, store, None, lambda: START * 1000, policy=None)
    assert device.report({}) is not None
    bound = {"epsilon": "0.5", "lineage_epsilon": "8"}
    # 1 of the old lineage and 0.5 fit its bound of 1.5, which binds here too.
    assert ask(B, store, "x", continues=[old], epsilon="0.6", lineage_epsilon="8") is (
        Status.BUDGET_SPENT
    )
    assert ask(B, store, "y", continues=[random_lineage], epsilon="1") is Status.BUDGET_SPENT
    assert ask(B, store, "y", continues=[old], **bound) is Status.READY
    assert ask(B, store, "z", continues=[random_lineage], epsilon="1", lineage_epsilon="2") is (
        Status.READY
    )


@pytest.mark.parametrize(
    "fields",
    [
        {"roots": "a" * 64}, {"roots": ["a" * 63]}, {"roots": ["A" * 64]},
        {"roots": [f"{n:064x}" for n in range(65)]},
        {"report_epsilon": 4}, {"report_epsilon": "-1"}, {"span_epsilon": "1e3"},
        {"span_epsilon": "1000000000"}, {"ever_epsilon": "inf"}, {"ever_epsilon": ""},
        {"report_epsilon": "0.000000000000000000001"}, {"report_epsilon": "٣"},
        {"span_days": 0}, {"span_days": 36_501}, {"span_days": True}, {"span_days": 1.5},
        {"purposes": "tests"}, {"allotments": {A.root: Allotment("1")}},
        {"roots": [A.root], "allotments": {A.root: Allotment("8.1")}},
        {"roots": [A.root], "allotments": {A.root: Allotment("x")}},
        {"roots": [A.root], "allotments": {A.root: Allotment("1", "x")}},
        {"roots": [A.root], "ever_epsilon": "9", "allotments": {A.root: Allotment("1")}},
        {"roots": [A.root], "ever_epsilon": "9", "allotments": {A.root: Allotment("1", "9.1")}},
        {"roots": [A.root, B.root], "allotments": {
            A.root: Allotment("4"), B.root: Allotment("4.00000000000000000001")}},
    ],
)  # fmt: skip
def test_a_policy_that_makes_no_sense_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match="policy"):
        Policy(**fields)
