"""What somebody else writes to snapshots, counts and state stops no role over Kafka."""

from __future__ import annotations

import secrets
import time

import pytest

from calmstream.broker.kafka import connect
from calmstream.common.clock import SystemClock
from calmstream.common.settings import load
from calmstream.consumer.publish.config import PublisherConfig
from calmstream.consumer.publish.session import PublishingSession
from calmstream.consumer.read.history import History
from calmstream.consumer.subscribe.subscribe import plan_names, subscribe
from calmstream.estimators.wire.snapshot import Kind
from tests.support.attacks.typed_mutants import hostile_records
from tests.support.publisher import DAY_MS, SlotLog, published_plan, publisher_context

pytestmark = pytest.mark.kafka


def test_publisher_subscriber_and_history_go_on(kafka_bootstrap: str) -> None:
    plan = published_plan(groups=1, windows=1)
    names = plan_names(plan, f"hostile-{secrets.token_hex(4)}")
    broker = connect(kafka_bootstrap)
    broker.topics().create(names.specs(DAY_MS))
    sink = broker.sink()
    try:
        for topic, key, value in hostile_records(plan, names):
            sink.send(topic, key, value, partition=0).wait(60)
        for number in range(plan.partitions):
            key, value = SlotLog(plan, 0, number).report(0, 0, 1, 2, 3).close(0).closed(0)
            sink.send(names.state, key, value, partition=number).wait(60)
        context = publisher_context(plan, names, SystemClock(), load(PublisherConfig))
        session = PublishingSession(context, broker)
        deadline = time.monotonic() + 120
        while not session.follower.completeness.both(0):
            assert time.monotonic() < deadline, "no final"
            session.step(0.2)
        assert session.follower.foreign.count == 8
        session.close(10)
        sets = subscribe(plan, broker, namespace=names.namespace, follow=False)
        assert [(one.window, one.kind) for one in sets] == [(0, Kind.FINAL), (0, Kind.TOTAL)]
        with History(plan, broker, namespace=names.namespace) as history:
            assert history.ask(["a0"]).reports == 4 * plan.partitions
    finally:
        sink.close(5)
        broker.topics().delete([spec.name for spec in names.specs(DAY_MS)])
        broker.close()
