"""Check that one of two publishers on a real broker works and the other one takes over."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable

import pytest
from prometheus_client import CollectorRegistry

from calmstream.broker.kafka import connect
from calmstream.common.clock import SystemClock
from calmstream.consumer.metrics.publisher import PUBLISHER_METRICS
from calmstream.consumer.metrics.registry import plan_metrics
from calmstream.consumer.publish.publisher import Publisher, PublisherConfig
from calmstream.consumer.read.history import History
from calmstream.consumer.subscribe.subscribe import plan_names, subscribe
from calmstream.estimators.wire.snapshot import Kind
from tests.support.publisher import DAY_MS, SlotLog, published_plan, slot_logs

pytestmark = pytest.mark.kafka


def turn_until(condition: Callable[[], bool], *publishers: Publisher, seconds: float = 90) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "not in time"
        for publisher in publishers:
            publisher.turn()


def test_a_take_over_loses_and_repeats_nothing(kafka_bootstrap: str) -> None:
    plan = published_plan(windows=2)
    names = plan_names(plan, f"pub-{secrets.token_hex(4)}")
    broker = connect(kafka_bootstrap, session_seconds=30)
    try:
        broker.topics().create(names.specs(7 * DAY_MS))
        sink = broker.sink()

        def put(log: SlotLog, record: tuple[bytes, bytes]) -> None:
            sink.send(names.state, *record, partition=log.partition).wait(60)

        def publisher() -> Publisher:
            return Publisher(
                plan,
                broker,
                names,
                clock=SystemClock(),
                config=PublisherConfig(poll_seconds=0.05, refresh_seconds=0.2),
                metrics=plan_metrics(CollectorRegistry(), plan, names, PUBLISHER_METRICS),
            )

        def seen() -> list[tuple[int, Kind]]:
            snapshots = subscribe(plan, kafka_bootstrap, follow=False, namespace=names.namespace)
            return [(s.window, s.kind) for s in snapshots]

        logs = slot_logs(plan)
        for log in logs:
            put(log, log.report(0, *([log.slot] * 30)).state())
        first = publisher()
        turn_until(lambda: first.active, first)
        turn_until(lambda: (0, Kind.EARLY) in seen(), first)
        for log in logs:
            put(log, log.close(0).closed(0))
        turn_until(lambda: (0, Kind.TOTAL) in seen(), first)
        closed = [one for one in seen() if one[1] is not Kind.CURRENT]
        assert closed[-2:] == [(0, Kind.FINAL), (0, Kind.TOTAL)]
        second = publisher()
        for _ in range(5):
            second.turn()
            first.turn()
        for log in logs:
            put(log, log.report(1, 1, 2).close(1).closed(1))
            put(log, log.state())
        first.finish()
        turn_until(lambda: second.finished, second)
        second.finish()
        shown = list(subscribe(plan, broker, follow=False, namespace=names.namespace))
        kept = [(s.window, s.kind) for s in shown if s.kind is not Kind.EARLY]
        assert [w for w, kind in kept if kind is Kind.CURRENT] == [0, 1]
        assert [one for one in kept if one[1] is not Kind.CURRENT] == [
            (w, k) for w in (0, 1) for k in (Kind.FINAL, Kind.TOTAL)
        ]
        assert [s.manifest.reports for s in shown if s.kind is Kind.TOTAL] == [120, 128]
        with History(plan, broker, namespace=names.namespace) as history:
            assert history.windows() == [0, 1]
            total = next(s for s in shown if s.kind is Kind.TOTAL and s.window == 1)
            answer = history.ask(["a0"])
            assert answer.revision == total.revision
            assert answer.table.tolist() == pytest.approx(list(total.record("a0").table))
    finally:
        broker.topics().delete([spec.name for spec in names.specs(0)])
        broker.close()
