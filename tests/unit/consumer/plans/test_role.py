"""Check the loop of many plans: whom a fault concerns, pauses, coming and going, health."""

from __future__ import annotations

import threading
from collections.abc import Callable
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from calmstream.broker.shared.broker import PlanBroker, SharedBroker
from calmstream.broker.transport import Chunk, TopicSpec
from calmstream.common.errors import FatalError, RecoverableError
from calmstream.common.health import RoleHealth, Verdict
from calmstream.common.metrics import Metrics
from calmstream.consumer.metrics import tally as m
from calmstream.consumer.metrics.registry import plan_label, plan_metrics
from calmstream.consumer.plans.role import PlansRole, WorkerKind
from calmstream.consumer.plans.served_plan import LONGEST_PAUSE, PlanState, ServedPlan
from calmstream.consumer.runtime.config import TallyConfig
from calmstream.estimators.plan import Plan
from tests.fault.virtual import Process, VirtualClock
from tests.support.faulty_broker import FaultyBroker
from tests.support.producer import make_plan
from tests.support.tally import names_of
from tests.support.tally_bench import Inline

ONE, TWO = make_plan(name="one"), make_plan(name="two")


class Worker:
    """Does nothing but what the test wants."""

    name = "tally"

    def __init__(self, plan: Plan, broker: PlanBroker, clock: VirtualClock) -> None:
        self.plan = plan
        self.share = broker.group_reader("ignored")
        self.calls: list[str] = []
        self.failure: BaseException | None = None
        self.is_over = False
        self.silent = 0.0
        self.health = RoleHealth(self.name, clock)
        self.health.watched(self.silent_seconds)
        self.health.ready()

    def _call(self, name: str) -> None:
        self.calls.append(name)
        if self.failure is not None:
            raise self.failure

    def silent_seconds(self) -> float:
        return self.silent

    def start(self, stop: threading.Event) -> None:  # noqa: ARG002 - part of the protocol
        self._call("start")
        self.share.subscribe([f"reports-{self.plan.name}"])

    def turn(self) -> bool:
        self._call("turn")
        self.health.turned()
        self.share.take_changes()
        return False

    def finish(self) -> None:
        self._call("finish")

    def abandon(self) -> None:
        self.calls.append("abandon")
        self.share.close(0.0)

    def over(self) -> bool:
        return self.is_over


class Setting:
    """A role with two plans, in virtual time."""

    def __init__(self) -> None:
        self.clock = VirtualClock(seconds=100.0)
        self.broker = FaultyBroker()
        self.broker.topics().create([TopicSpec("reports-one", 1), TopicSpec("reports-two", 1)])
        self.registry = CollectorRegistry()
        self.plans = {ONE.digest: ONE, TWO.digest: TWO}
        self.made: list[Worker] = []
        self.first_fault: BaseException | None = None
        kind = WorkerKind("tally", self._make, self._metrics, m.QUARANTINED, m.FAULTS)
        self.shared = SharedBroker(Process(self.broker, self.clock), "g", self.clock)
        self.role = PlansRole(
            kind, lambda: self.plans, self.shared, self.clock, Inline(), TallyConfig()
        )

    def _make(self, plan: Plan, broker: PlanBroker, _metrics: Metrics) -> Worker:
        worker = Worker(plan, broker, self.clock)
        worker.failure = self.first_fault if plan is ONE else None
        self.made.append(worker)
        return worker

    def _metrics(self, plan: Plan) -> Metrics:
        return plan_metrics(self.registry, plan, names_of(plan), m.TALLY_METRICS)

    def turns(self, number: int = 5, seconds: float = 0.5) -> None:
        for _ in range(number):
            self.role.turn()
            self.clock.advance(seconds)

    def worker(self, plan: Plan) -> Worker:
        return [worker for worker in self.made if worker.plan is plan][-1]

    def metric(self, name: str, plan: Plan) -> float | None:
        return self.registry.get_sample_value(name, {"plan": plan_label(plan)})


@pytest.mark.parametrize("fault", [FatalError("its log was trimmed"), ValueError("a defect")])
def test_a_fault_of_one_plan_stops_only_this_plan_and_it_begins_anew(fault: Exception) -> None:
    setting = Setting()
    setting.turns()
    assert set(setting.role.states.values()) == {PlanState.WORKING}
    assert setting.shared.group.owned == {("reports-one", 0), ("reports-two", 0)}
    broken = setting.worker(ONE)
    broken.failure = fault
    setting.turns(4)
    assert setting.role.states == {ONE.digest: PlanState.QUARANTINED, TWO.digest: PlanState.WORKING}
    assert broken.calls[-1] == "abandon"
    assert setting.shared.group.owned == {("reports-one", 0), ("reports-two", 0)}
    assert not broken.share.started, "its partitions are paused"
    before = len(setting.worker(TWO).calls)
    setting.turns(3)
    assert len(setting.worker(TWO).calls) > before
    assert setting.metric("calmstream_tally_quarantined", ONE) == 1
    assert setting.metric("calmstream_tally_quarantined", TWO) == 0
    assert setting.metric("calmstream_tally_faults_total", ONE) == 1
    assert setting.role.health.readiness().well, "the process works"
    assert setting.role.health.troubles.keys() == {plan_label(ONE)}
    assert str(fault) in setting.role.health.troubles[plan_label(ONE)]
    setting.turns(12)
    assert setting.role.states[ONE.digest] is PlanState.WORKING
    assert setting.worker(ONE) is not broken
    assert setting.metric("calmstream_tally_quarantined", ONE) == 0


def test_the_pauses_grow_and_begin_again_after_long_work() -> None:
    setting = Setting()
    setting.first_fault = FatalError("a topic is missing")
    began: list[float] = []
    while len(began) < 9:
        made = len(setting.made)
        setting.turns(1)
        if any(worker.plan is ONE for worker in setting.made[made:]):
            began.append(setting.clock.seconds)
    pauses = [round(b - a) for a, b in pairwise(began)]
    assert pauses == sorted(pauses)
    assert pauses[0] in (5, 6)
    assert pauses[-1] == pytest.approx(LONGEST_PAUSE, abs=2)
    setting.first_fault = None
    setting.turns(1400)
    assert setting.role.states[ONE.digest] is PlanState.WORKING
    setting.turns(1400)
    setting.worker(ONE).failure = FatalError("again")
    setting.turns(3)
    setting.turns(12)
    assert setting.role.states[ONE.digest] is PlanState.WORKING


def test_a_lack_of_memory_ends_the_process() -> None:
    setting = Setting()
    setting.turns()
    setting.worker(ONE).failure = MemoryError()
    with pytest.raises(MemoryError):
        setting.turns()


def test_a_fault_after_a_session_without_a_poll_ends_the_process() -> None:
    setting = Setting()
    setting.turns()
    setting.worker(ONE).failure = FatalError("no poll for 40 s")
    setting.role._collect()
    setting.clock.advance(2.0)
    setting.role._start_due()
    setting.clock.advance(40.0)
    with pytest.raises(FatalError, match="the session is 30 s"):
        setting.role._collect()


def test_a_broker_that_does_not_answer_ends_the_process_after_the_retry_time() -> None:
    setting = Setting()
    setting.turns()
    member = setting.shared.group._member
    assert member is not None

    def silent(_timeout: float, _records: int) -> list[Chunk]:
        raise RecoverableError("no answer")

    real: Callable[..., list[Chunk]] = member.poll_chunks
    member.poll_chunks = silent  # type: ignore[method-assign]
    setting.turns(50)
    member.poll_chunks = real  # type: ignore[method-assign]
    setting.turns(2)
    member.poll_chunks = silent  # type: ignore[method-assign]
    with pytest.raises(FatalError, match="the broker did not answer for 60 s: no answer"):
        setting.turns(200)
    assert {w.calls[-1] for w in setting.made} == {"turn"}


def test_a_removed_plan_is_finished_and_forgotten_and_may_come_back() -> None:
    setting = Setting()
    setting.turns()
    first = setting.worker(ONE)
    setting.plans = {TWO.digest: TWO}
    setting.turns()
    assert first.calls[-1] == "finish"
    assert set(setting.role.states) == {TWO.digest}
    assert setting.shared.group.owned == {("reports-two", 0)}
    assert setting.metric("calmstream_tally_quarantined", ONE) is None
    setting.plans = {ONE.digest: ONE, TWO.digest: TWO}
    setting.turns()
    assert setting.role.states[ONE.digest] is PlanState.WORKING
    assert setting.worker(ONE) is not first
    assert setting.shared.group.owned == {("reports-one", 0), ("reports-two", 0)}
    assert setting.metric("calmstream_tally_quarantined", ONE) == 0


def test_a_plan_that_is_over_gives_its_clients_back_and_is_not_begun_again() -> None:
    setting = Setting()
    setting.turns()
    setting.worker(ONE).is_over = True
    setting.turns()
    assert setting.worker(ONE).calls[-1] == "finish"
    assert setting.role.states[ONE.digest] is PlanState.OVER
    assert setting.shared.group.owned == {("reports-two", 0)}
    setting.turns(20)
    assert len(setting.made) == 2
    assert not setting.role.health.troubles


def test_a_plan_in_quarantine_can_be_removed() -> None:
    setting = Setting()
    setting.first_fault = FatalError("a topic is missing")
    setting.turns()
    setting.plans = {TWO.digest: TWO}
    setting.turns()
    assert set(setting.role.states) == {TWO.digest}


def test_a_stop_lets_every_worker_finish_and_names_those_that_did_not() -> None:
    setting = Setting()
    stop = threading.Event()
    setting.turns()
    setting.worker(TWO).failure = FatalError("stopped without a last checkpoint")
    stop.set()
    with pytest.raises(FatalError) as raised:
        setting.role.run(stop)
    assert {"finish"} == {worker.calls[-1] for worker in setting.made if worker.plan is ONE}
    assert setting.worker(TWO).calls[-1] == "finish"
    assert f"plan {plan_label(TWO)}: stopped without a last checkpoint" in str(raised.value)
    assert plan_label(ONE) not in str(raised.value)
    assert setting.role.states == {}


def test_a_stop_names_a_worker_that_is_not_done_in_time() -> None:
    setting = Setting()
    setting.turns()
    setting.role._stop_seconds = 0.0
    with pytest.raises(FatalError, match=f"plan {plan_label(ONE)}: not done within 0 s"):
        setting.role.finish()


def test_the_role_knows_the_age_of_the_last_answer_that_any_plan_got() -> None:
    setting = Setting()
    setting.turns()
    setting.worker(ONE).silent = 40.0
    setting.turns()
    assert setting.role.health.silent_seconds == 0, "a broker has answered the other plan"
    assert setting.role.health.readiness().well
    setting.worker(TWO).silent = 30.0
    setting.turns()
    assert setting.role.health.silent_seconds == 30
    verdict = setting.role.health.readiness()
    assert verdict == Verdict(False, "no broker has answered for 30 s")


def test_no_plan_at_all_is_no_fault() -> None:
    setting = Setting()
    setting.plans = {}
    setting.turns()
    assert setting.role.health.readiness().well
    setting.plans = {TWO.digest: TWO}
    setting.turns()
    assert setting.role.states == {TWO.digest: PlanState.WORKING}


def working(clock: VirtualClock) -> ServedPlan:
    """Return a plan whose worker has taken a turn and has nothing to do."""
    worker: Any = SimpleNamespace(
        health=RoleHealth("tally", clock),
        start=lambda _: None,
        turn=lambda: False,
        over=lambda: False,
    )
    nothing: Any = None
    served = ServedPlan(ONE, lambda *_: worker, nothing, nothing, clock)
    for _ in range(2):
        served.start(Inline())
        assert served.collect() is None
    assert served.state is PlanState.WORKING
    assert not served.due(clock.monotonic())
    return served


def test_what_arrives_does_not_send_a_waiting_plan_to_the_end_of_the_queue() -> None:
    clock = VirtualClock(0)
    first, second = working(clock), working(clock)
    for one in (first, second, first):
        one.wake()
        clock.advance(0.1)
    assert first.due(clock.monotonic())
    assert first.due_at < second.due_at
