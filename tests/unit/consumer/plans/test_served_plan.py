"""Check in which order plans take turns."""

from __future__ import annotations

import threading

from calmstream.consumer.plans.served_plan import PlanState, ServedPlan
from calmstream.consumer.runtime.health import RoleHealth
from calmstream.estimators.plan import Plan
from tests.fault.virtual import VirtualClock
from tests.support.producer import make_plan
from tests.support.tally_bench import Inline


class Worker:
    """Has nothing to do."""

    name = "tally"

    def __init__(self, clock: VirtualClock) -> None:
        self.health = RoleHealth(self.name, clock)

    def start(self, stop: threading.Event) -> None: ...

    def turn(self) -> bool:
        return False

    def finish(self) -> None: ...

    def abandon(self) -> None: ...

    def over(self) -> bool:
        return False


def working(clock: VirtualClock) -> ServedPlan:
    """Return a plan whose worker has taken a turn and has nothing to do."""

    def make(_plan: Plan) -> Worker:
        return Worker(clock)

    served = ServedPlan(make_plan(name="one"), make, clock, lambda *_: None)
    for _ in range(2):
        served.start(Inline())
        assert served.collect() is None
    assert served.state is PlanState.WORKING
    assert not served.due(clock.monotonic())
    return served


def test_a_plan_takes_a_turn_when_something_arrives() -> None:
    clock = VirtualClock(0)
    served = working(clock)
    served.wake()
    assert served.due(clock.monotonic())


def test_what_arrives_does_not_send_a_waiting_plan_to_the_end_of_the_queue() -> None:
    clock = VirtualClock(0)
    first, second = working(clock), working(clock)
    first.wake()
    clock.advance(0.1)
    second.wake()
    clock.advance(0.1)
    first.wake()
    assert first.order() < second.order()
