"""Check that a ledger keeps to the bounds of the lineage, whatever plans ask and when."""

from __future__ import annotations

from decimal import Decimal
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from calmstream.estimators.plan import Guarantee, Plan
from calmstream.producer.device.assignment import place
from calmstream.producer.device.ledger import DeviceState, status
from calmstream.producer.device.policy import Status
from calmstream.producer.device.store import from_bytes, to_bytes
from tests.support.producer import LINEAGE, make_plan

DEVICES = 4
ONCE, EVERY_3 = Guarantee(), Guarantee("w-event", 3)


def _plan(i: int, epsilon: str, bound: str, guarantee: Guarantee) -> Plan:
    return make_plan(
        name=f"p{i}",
        windows=40,
        epsilon=epsilon,
        lineage_epsilon=bound,
        guarantee=guarantee,
    )


PLANS = (
    _plan(0, "0.5", "0.5", ONCE),
    _plan(1, "0.3", "1.3", ONCE),
    _plan(2, "0.3", "1.3", ONCE),
    _plan(3, "0.5", "1.1", EVERY_3),
    _plan(4, "0.3", "8", EVERY_3),
    _plan(5, "0.3", "8", EVERY_3),
    _plan(6, "0.3", "8", ONCE),
    make_plan(
        name="p7",
        windows=20,
        window=20,
        guarantee=Guarantee("w-event", 2),
        epsilon="0.3",
        lineage_epsilon="2",
    ),
)


class Turn(NamedTuple):
    """One plan asks at one time; who answers of those that may, and whether all restart first."""

    plan: int
    second: int
    answers: tuple[bool, ...]
    restart: bool


turns = st.lists(
    st.builds(
        Turn,
        st.integers(0, len(PLANS) - 1),
        st.integers(0, 399),
        st.tuples(*[st.booleans()] * DEVICES),
        st.booleans(),
    ),
    max_size=12,
)


@given(turns=turns)
@settings(max_examples=300, deadline=None)
def test_all_reports_keep_to_the_smallest_bound(turns: list[Turn]) -> None:
    states = [DeviceState(bytes([i]) * 16) for i in range(DEVICES)]
    bounds: list[list[str]] = [[] for _ in states]
    for turn in turns:
        if turn.restart:
            states = [from_bytes(to_bytes(state)) for state in states]
        plan = PLANS[turn.plan]
        now = (plan.start + turn.second) * 1000
        window = plan.window_at(now)
        for i, state in enumerate(states):
            verdict = status(plan, place(plan, state.secret).slot, state.under(LINEAGE), now)
            if verdict is Status.READY and turn.answers[i]:
                states[i] = state.spend(plan, window)
                bounds[i] += [plan.lineage_epsilon]
    for state, answered in zip(states, bounds, strict=True):
        entries = state.under(LINEAGE).values()
        assert {spent.bound for spent in entries} == set(answered)
        if answered and all(spent.horizon == 0 for spent in entries):
            total = sum((spent.total for spent in entries), start=Decimal(0))
            assert total <= min(map(Decimal, answered))


def test_every_verdict_is_met() -> None:
    """Check that the plans above are both refused and allowed because of the budget."""
    for plan in PLANS:
        allowed = status(plan, 0, {}, plan.start * 1000)
        assert allowed is Status.READY
        spent = DeviceState(bytes(16))
        for other in PLANS:
            if other is not plan:
                spent = spent.spend(other, 0)
        refused = status(plan, 0, spent.under(LINEAGE), plan.start * 1000)
        assert refused is Status.BUDGET_SPENT
