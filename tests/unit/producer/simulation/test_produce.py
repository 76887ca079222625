"""A run of ``produce``: rate, windows and end; its clock moves only when the code sleeps."""

from __future__ import annotations

import threading

import pytest

from calmstream.broker.transport import Partition
from calmstream.common.errors import FatalError, RecoverableError
from calmstream.estimators.plan import Plan
from calmstream.producer.gateway.encoding import EncodedBatch
from calmstream.producer.gateway.sender import BatchSender
from calmstream.producer.simulation.produce import GIVE_UP_SECONDS, ProduceSummary, produce
from tests.support.clock import ManualClock
from tests.support.faulty_broker import FaultyBroker, SendFault
from tests.support.producer import (
    START,
    ScriptedSink,
    broker_for,
    count,
    make_plan,
    names_of,
    records_of,
    some_codes,
)


def run(
    plan: Plan,
    broker: FaultyBroker,
    n: int = 600,
    clock: ManualClock | None = None,
    **options: object,
) -> ProduceSummary:
    return produce(
        plan,
        broker,
        names_of(plan),
        some_codes(n),
        clock=clock or ManualClock(START * 1000),
        **options,  # type: ignore[arg-type]
    )


def per_window(plan: Plan, broker: FaultyBroker) -> dict[int, int]:
    out: dict[int, int] = {}
    for (_, window), tally in count(plan, records_of(broker, plan)).items():
        out[window] = out.get(window, 0) + tally.reports
    return out


def test_a_run_waits_while_its_sender_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    plan, fates, under_way = make_plan(), [SendFault.FAIL] * 20, list[int]()
    broker, submit = broker_for(plan), BatchSender.submit
    broker.faults.on_send = lambda *_: fates.pop() if fates else SendFault.NONE

    def noted(sender: BatchSender, batch: EncodedBatch) -> None:
        submit(sender, batch)
        under_way.append(sender.in_flight)

    monkeypatch.setattr(BatchSender, "most", 3)
    monkeypatch.setattr(BatchSender, "submit", noted)
    assert run(plan, broker, batch_size=10).sent == 600
    assert max(under_way) == 3


def test_everybody_reports_once() -> None:
    plan = make_plan()
    broker = broker_for(plan)
    summary = run(plan, broker)
    assert (summary.devices, summary.reported, summary.sent) == (600, 600, 600)
    assert (summary.failed, summary.retries) == (0, 0)
    assert summary.error is None
    assert (summary.missing, summary.expired) == (0, False)
    assert summary.batches == len(records_of(broker, plan))
    assert per_window(plan, broker) == {0: 600}


def test_the_rate_is_kept_and_spreads_the_devices_over_the_windows() -> None:
    plan, clock = make_plan(), ManualClock(START * 1000)
    broker = broker_for(plan)
    summary = run(plan, broker, 600, clock, rate=20.0)
    # 600 devices at 20 a second are 30 seconds, three windows.
    assert clock.seconds == pytest.approx(30, abs=1.5)
    spread = per_window(plan, broker)
    assert set(spread) == {0, 1, 2}
    assert all(180 <= n <= 220 for n in spread.values())
    assert summary.sent == 600


def test_a_run_that_outlasts_the_plan_ends_with_it() -> None:
    plan, clock = make_plan(windows=2), ManualClock(START * 1000)
    broker = broker_for(plan)
    summary = run(plan, broker, 600, clock, rate=20.0)
    assert clock.now_ms() <= (plan.expires + 2) * 1000
    assert summary.sent == summary.reported == sum(per_window(plan, broker).values())
    assert 380 <= summary.sent <= 420
    assert summary.missing == 600 - summary.sent
    assert summary.expired


def test_stop_is_obeyed_and_deliveries_are_awaited() -> None:
    plan, clock, stop = make_plan(), ManualClock(START * 1000), threading.Event()
    broker = broker_for(plan)

    def sleep(seconds: float) -> None:
        clock.advance(seconds)
        if clock.seconds > 8:
            stop.set()

    clock.sleep = sleep  # type: ignore[method-assign]
    summary = run(plan, broker, 600, clock, rate=20.0, stop=stop)
    assert clock.seconds < 10
    assert 0 < summary.reported < 250
    assert summary.sent == summary.reported
    assert summary.error is None
    assert (summary.missing, summary.expired) == (600 - summary.sent, False)


def test_devices_are_not_wasted_on_a_broker_that_is_down() -> None:
    plan, clock = make_plan(windows=30), ManualClock(START * 1000)
    broker = broker_for(plan)
    broker.faults.on_send = lambda *_: SendFault.FAIL
    summary = run(plan, broker, 600, clock, rate=2.0)
    assert isinstance(summary.error, RecoverableError)
    assert summary.sent == 0
    assert 0 < summary.failed == summary.reported < 300
    assert GIVE_UP_SECONDS - 5 < clock.seconds < 2 * GIVE_UP_SECONDS + 5


def test_a_refusal_ends_the_run_at_once_and_the_other_batches_are_sent() -> None:
    plan, clock, refusal = make_plan(), ManualClock(START * 1000), FatalError("no such topic")
    broker = broker_for(plan)
    sink = ScriptedSink(lambda i: refusal if i == 0 else i)
    broker.sink = lambda: sink  # type: ignore[method-assign,assignment,return-value]
    summary = run(plan, broker, 600, clock, rate=20.0)
    assert summary.error is refusal
    assert 0 < summary.failed < summary.reported == summary.failed + summary.sent <= 20
    assert (summary.retries, clock.seconds) == (0, pytest.approx(0, abs=1.5))


def test_added_partitions_end_the_run_and_nothing_is_lost() -> None:
    plan = make_plan(partitions=1)
    broker = broker_for(plan)
    topic = names_of(plan).reports(0)
    broker.grow(topic, 4)
    summary = run(plan, broker, 100)
    assert isinstance(summary.error, FatalError)
    assert "collect under a new plan" in str(summary.error)
    assert summary.sent == summary.reported
    assert all(not broker.records(Partition(topic, number)) for number in (1, 2, 3))
