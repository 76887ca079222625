"""Check that the ledgers of one device and of a population always make the same decisions.

A ledger records what a device has reported, and decides whether it may report again.
"""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import NamedTuple

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from calmstream.estimators.plan import Guarantee, Plan
from calmstream.estimators.randomness import SeededRandomness
from calmstream.producer.device.assignment import place, places
from calmstream.producer.device.ledger import DeviceState, status
from calmstream.producer.device.policy import Status
from calmstream.producer.device.store import from_bytes, to_bytes
from calmstream.producer.simulation.fleet import Fleet, _from_bytes
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
def test_a_population_obeys_the_rules_of_one_device(turns: list[Turn]) -> None:
    fleet = Fleet.new(DEVICES, LINEAGE, SeededRandomness(3))
    states = [DeviceState(secret.tobytes()) for secret in fleet.secrets]
    bounds: list[list[str]] = [[] for _ in states]
    for turn in turns:
        if turn.restart:
            fleet = _from_bytes(fleet._to_bytes(), Path("devices.npz"))
            states = [from_bytes(to_bytes(state)) for state in states]
        plan = PLANS[turn.plan]
        now = (plan.start + turn.second) * 1000
        window = plan.window_at(now)
        alone = [status(plan, place(plan, s.secret).slot, s.under(LINEAGE), now) for s in states]
        may = fleet.may_report(plan, window, places(plan, [s.tobytes() for s in fleet.secrets])[1])
        assert may.tolist() == [s is Status.READY for s in alone]
        reporting = np.flatnonzero(may & np.array(turn.answers))
        fleet.claim(plan, window, reporting)
        for i in reporting:
            states[i] = states[i].spend(plan, window)
            bounds[i] += [plan.lineage_epsilon]
    for state, answered in zip(states, bounds, strict=True):
        _within_bounds(state, answered)


def _within_bounds(state: DeviceState, bounds: list[str]) -> None:
    """Check that all reports together keep to the smallest bound that was answered."""
    entries = state.under(LINEAGE).values()
    assert {spent.bound for spent in entries} == set(bounds)
    if bounds and all(spent.horizon == 0 for spent in entries):
        total = sum((spent.total for spent in entries), start=Decimal(0))
        assert total <= min(map(Decimal, bounds))


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
