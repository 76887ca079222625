"""Check that every batch is counted as sent or failed, also in metrics, whatever happens."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from prometheus_client import CollectorRegistry

from calmstream.common.errors import CalmstreamError, RecoverableError
from calmstream.common.metrics import MetricDefinition
from calmstream.producer.gateway.encoding import EncodedBatch, make_batch
from calmstream.producer.gateway.metrics import (
    FAILED,
    IN_FLIGHT,
    RETRIED,
    SENT,
    Failure,
    GatewayTotals,
)
from calmstream.producer.gateway.sender import BatchSender
from calmstream.producer.simulation.produce import produce
from tests.support.clock import ManualClock
from tests.support.faulty_broker import SendFault
from tests.support.producer import (
    START,
    ScriptedSink,
    broker_for,
    make_plan,
    names_of,
    settle_all,
    some_codes,
)

PLAN = make_plan()
DOWN = RecoverableError("down")


def encoded(n: int = 1) -> EncodedBatch:
    return make_batch(PLAN, 0, 0, np.zeros(n, int), {"v": np.arange(n) % 12})


def sender(
    script: Callable[[int], int | CalmstreamError | None],
    clock: ManualClock | None = None,
) -> tuple[BatchSender, ScriptedSink]:
    sink = ScriptedSink(script)
    return BatchSender(names_of(PLAN), lambda: sink, clock=clock or ManualClock(START * 1000)), sink


def test_a_send_without_an_answer_is_repeated() -> None:
    clock = ManualClock()
    one, sink = sender(lambda i: None if i == 0 else i, clock)
    one.submit(encoded())
    clock.seconds = 29.9
    one.step()
    assert len(sink.sends) == 1
    clock.seconds = 30.1
    assert one.step() == []
    clock.seconds = 31
    settle_all(one)
    assert len(sink.sends) == 2
    assert (one.totals.batches_sent, one.totals.retries) == (1, 1)


def test_a_batch_is_sent_again_until_it_is_given_up() -> None:
    one, sink = sender(lambda i: DOWN if i % 2 == 0 else i)
    for n in (2, 1, 3):
        one.submit(encoded(n))
    assert [batch.n for batch in one.step()] == [1]
    (first, error), (last, _) = one.take_failed()
    assert (first.encoded.n, last.encoded.n, error) == (2, 3, DOWN)
    assert one.take_failed() == [], "an error is shown once"
    one.give_up(first, Failure.EXPIRED, DOWN)
    settle_all(one)
    assert len(sink.sends) == 4
    assert (one.totals.failures, one.totals.reports_sent) == ({Failure.EXPIRED: 2}, 4)
    assert one.error is DOWN


def test_what_is_given_up_is_counted_and_what_was_acknowledged_is_not_given_up() -> None:
    one, _ = sender(lambda i: i or None)
    for n in (1, 2):
        one.submit(encoded(n))
    assert [batch.n for batch in one.step()] == [2]
    one.give_up_all(DOWN)
    assert (one.in_flight, one.totals.failures) == (0, {Failure.UNDELIVERED: 1})
    assert (one.totals.reports_sent, one.error) == (2, DOWN)


def test_a_sender_is_full_at_its_bound() -> None:
    one, sink = sender(lambda _: None)
    for _ in range(one.most):
        assert not one.full
        one.submit(encoded())
    assert one.full
    sink.release()
    settle_all(one)
    assert one.totals.batches_sent == one.most


LABEL = f"{PLAN.name}-{PLAN.digest[:32]}"


def values(
    registry: CollectorRegistry, metric: MetricDefinition, why: Failure = Failure.UNDELIVERED
) -> list[float | None]:
    labels = {"plan": LABEL} | ({"reason": why.value} if "reason" in metric.labels else {})
    groups = [{"group": str(g)} for g in range(len(PLAN.groups))] if metric is SENT else [{}]
    return [registry.get_sample_value(metric.name, labels | group) for group in groups]


def test_what_happened_is_what_is_counted() -> None:
    registry, broker = CollectorRegistry(), broker_for(PLAN)
    names = names_of(PLAN)
    lost = names.reports(0)
    broker.faults.on_send = lambda to, *_: SendFault.FAIL if to.topic == lost else SendFault.NONE
    broker.faults.plan(names.reports(1), SendFault.FAIL)
    summary = produce(
        PLAN,
        broker,
        names,
        some_codes(500),
        totals=GatewayTotals(PLAN, registry),
        clock=ManualClock(START * 1000),
    )
    sent, failed, retried = (values(registry, metric) for metric in (SENT, FAILED, RETRIED))
    assert sum(sent) == summary.sent  # type: ignore[arg-type]
    assert sum(failed) == summary.failed == 500 - summary.sent  # type: ignore[arg-type]
    assert sent[0] == 0
    assert retried == [float(summary.retries)]
    assert summary.retries > 10
    assert registry.get_sample_value(IN_FLIGHT.name, {"plan": LABEL}) == 0.0
