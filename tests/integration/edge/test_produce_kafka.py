"""Check that every report of a population and of a batcher arrives at a real broker."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator

import pytest

from calmstream.broker.kafka import connect
from calmstream.broker.names import TopicNames
from calmstream.broker.transport import Broker, Record
from calmstream.estimators.plan import Plan
from calmstream.producer.simulation.produce import produce
from tests.support.logs import read_reports
from tests.support.producer import count, make_plan, some_codes

pytestmark = pytest.mark.kafka

DEADLINE = 60.0


@pytest.fixture
def broker(kafka_bootstrap: str) -> Iterator[Broker]:
    broker = connect(kafka_bootstrap)
    yield broker
    broker.close()


def new_topics(broker: Broker, plan: Plan) -> TopicNames:
    names = TopicNames(
        f"produce-{uuid.uuid4().hex[:8]}", plan.name, plan.digest, len(plan.groups), plan.partitions
    )
    broker.topics().create(names.specs(7 * 86_400_000))
    return names


def read_all(broker: Broker, plan: Plan, names: TopicNames) -> list[tuple[int, Record]]:
    records = read_reports(broker, plan, names, DEADLINE)
    return [(names.group_of(record.partition.topic), record) for record in records]


def test_a_population_reports_over_kafka(broker: Broker) -> None:
    now = int(time.time())
    plan = make_plan(start=now - 60, windows=1, window=86_400)
    names = new_topics(broker, plan)
    summary = produce(plan, broker, names, some_codes(20_000), batch_size=100)
    assert (summary.sent, summary.failed, summary.error) == (20_000, 0, None)
    records = read_all(broker, plan, names)
    assert len(records) >= summary.batches
    assert all(record.append_time for _, record in records)
    tallies = count(plan, records)
    assert sum(tally.reports for tally in tallies.values()) == 20_000
    assert {window for _, window in tallies} == {0}
    # The random batch ids spread the load over both partitions of every topic.
    assert len({record.partition for _, record in records}) == 6
