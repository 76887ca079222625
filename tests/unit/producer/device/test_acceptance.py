"""Check which plans a device accepts, and the reason for each refusal."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from calmstream import (
    FileStore,
    MemoryStore,
    PlanRefused,
    Policy,
    Refusal,
    Reporter,
    Status,
    set_policy,
)
from calmstream.common.clock import utc
from calmstream.common.errors import InvalidInput
from calmstream.producer.device.ledger import DeviceState
from tests.support.producer import START, WINDOW
from tests.support.signed import YEAR, Operator

GOOD, OTHER = Operator(), Operator(root_seed=7, key_seed=8)
PLAN = GOOD.plan()
POLICY = Policy(roots=(GOOD.root,))


def reporter(given: Any, store: MemoryStore | None = None, **more: Any) -> Reporter:
    seconds = more.pop("seconds", START)
    policy = more.pop("policy", POLICY)
    store = MemoryStore() if store is None else store
    return Reporter(given, store, clock=lambda: seconds * 1000, policy=policy, **more)


def refused(given: Any, **more: Any) -> Refusal:
    store = MemoryStore(DeviceState(bytes(16), policy=more.get("policy", POLICY)))
    before = store.read()
    with pytest.raises(PlanRefused) as caught:
        reporter(given, store, **more)
    assert store.read() == before
    assert "\n" not in str(caught.value)
    return caught.value.reason


def test_a_signed_plan_is_answered() -> None:
    store = MemoryStore()
    device = reporter(GOOD.sign(PLAN), store)
    assert device.plan == PLAN
    assert (device.status(), device.refusal()) == (Status.READY, None)
    assert device.report({"colour": "red"}) is not None
    assert device.status() is Status.ALREADY_REPORTED
    assert list(store.read().signed) == [PLAN.lineage]
    assert not store.read().lineages
    assert reporter(bytearray(GOOD.sign(PLAN)), store).status() is Status.ALREADY_REPORTED


def test_purposes_are_compared_exactly() -> None:
    signed = GOOD.sign(GOOD.plan(purpose="crash rates"))
    for purposes in ((), ("tests",), ("crash rates ", "Crash rates")):
        policy = Policy(roots=(GOOD.root,), purposes=purposes)
        assert refused(signed, policy=policy) is Refusal.PURPOSE
    policy = Policy(roots=(GOOD.root,), purposes=("x", "crash rates"))
    assert reporter(signed, policy=policy).status() is Status.READY


def test_a_limit_is_allowed_and_the_default_policy_trusts_no_operator() -> None:
    signed = GOOD.sign(GOOD.plan(epsilon="4"))
    assert reporter(signed).report({}) is not None
    assert refused(signed, policy=Policy()) is Refusal.UNKNOWN_ROOT
    store = MemoryStore()
    with pytest.raises(PlanRefused):
        Reporter(signed, store)
    assert store.read().policy == Policy()


def test_unsigned_plans_need_to_be_allowed_by_name() -> None:
    for given in (PLAN, PLAN.to_bytes()):
        assert reporter(given, allow_unsigned=True).report({}) is not None
    strict = Policy(report_epsilon="0.5")
    assert refused(PLAN, policy=strict, allow_unsigned=True) is Refusal.REPORT_EPSILON
    assert refused(b"{}", allow_unsigned=True) is Refusal.MALFORMED
    assert refused(OTHER.sign(OTHER.plan()), allow_unsigned=True) is Refusal.UNKNOWN_ROOT


def test_the_certificate_is_checked_again_at_every_report() -> None:
    now = [START]
    operator = replace(GOOD, not_after=START + WINDOW)
    store = MemoryStore(DeviceState(bytes(16), policy=POLICY))
    device = Reporter(operator.sign(PLAN), store, clock=lambda: now[0] * 1000)
    now[0] = START + WINDOW + 1
    assert device.status() is Status.REFUSED
    assert device.refusal() is Refusal.EXPIRED_CERTIFICATE
    before = store.read()
    assert device.report({}) is None
    assert store.read() == before


def test_a_clock_that_goes_back_does_not_revive_a_certificate() -> None:
    """The mark, the latest clock at which the device reported, counts as the present."""
    store = MemoryStore()
    early = replace(GOOD, not_after=START + WINDOW).sign(PLAN)
    late = GOOD.sign(GOOD.plan("b"))
    assert reporter(late, store, seconds=START + 3 * WINDOW).report({}) is not None
    with pytest.raises(PlanRefused, match=f"expired_certificate.* to {utc(START + WINDOW)}; "):
        reporter(early, store, seconds=START)


def test_another_policy_takes_effect_at_once() -> None:
    store = MemoryStore()
    device = reporter(GOOD.sign(PLAN), store)
    set_policy(store, Policy(roots=(OTHER.root,)))
    assert (device.status(), device.refusal()) == (Status.REFUSED, Refusal.UNKNOWN_ROOT)
    assert device.report({}) is None
    set_policy(store, POLICY)
    assert device.report({}) is not None


def test_a_store_keeps_its_policy_until_the_application_changes_it() -> None:
    store = MemoryStore()
    signed = GOOD.sign(PLAN)
    reporter(signed, store)
    with pytest.raises(InvalidInput, match="set_policy"):
        reporter(signed, store, policy=Policy(roots=(GOOD.root,), span_epsilon="800"))
    assert store.read().policy == POLICY
    assert reporter(signed, store, policy=None).status() is Status.READY


def test_an_application_states_its_policy_at_every_start(tmp_path: Path) -> None:
    store, written = FileStore(tmp_path / "device"), []
    for operator in (GOOD, GOOD, OTHER):  # an empty store, a second start, a new root
        set_policy(store, Policy(roots=(operator.root,)))
        signed = operator.sign(operator.plan())
        assert Reporter(signed, store, clock=lambda: START * 1000).status() is Status.READY
        written.append(store.read().generation)
    assert written[0] == written[1] < written[2]


def test_a_rotated_key_keeps_the_lineage_and_what_was_spent() -> None:
    store = MemoryStore()
    assert reporter(GOOD.sign(PLAN), store).report({}) is not None
    rotated = replace(GOOD, key_seed=9, not_after=GOOD.not_after + YEAR)
    follows = rotated.sign(rotated.plan(name="later"))
    assert reporter(follows, store).status() is Status.BUDGET_SPENT
