"""Let a replica without the newest records become leader: the worker stops and names the remedy."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaAdminClient

from calmstream.broker.kafka import connect
from calmstream.broker.topic_facts import required_retention_ms
from calmstream.common.errors import CalmstreamError
from calmstream.consumer.subscribe.subscribe import plan_names
from tests.brokers.native import NativeKafka
from tests.brokers.provide import or_skip
from tests.support.service.processes import Process, run, until
from tests.support.tally import body, small_plan

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(600)]

SECONDS = 180.0
UNCLEAN = {
    "unclean.leader.election.enable": "true",
    "unclean.leader.election.interval.ms": "1000",  # a partition without a leader: 5 min by default
    "replica.lag.time.max.ms": "2000",
    "offsets.topic.replication.factor": "3",  # the group outlives each broker
}


@pytest.fixture
def brokers() -> Iterator[list[NativeKafka]]:
    """Start three brokers; the first has the controller and stays."""
    with ExitStack() as stack:
        found: list[NativeKafka] = []
        for _ in range(3):
            joins = found[-1] if found else None
            broker = NativeKafka(properties=UNCLEAN, joins=joins)
            stack.callback(broker.close)
            with or_skip():
                broker.start()
            found.append(broker)
        yield found


def test_a_log_that_lost_counted_records_stops_the_worker(
    brokers: list[NativeKafka], tmp_path: Path
) -> None:
    first, second, third = brokers
    plan = small_plan(window=3600, start=int(time.time()) - 60)
    file = tmp_path / "plan.json"
    file.write_bytes(plan.to_bytes())
    names = plan_names(plan, "unclean")
    admin = KafkaAdminClient(bootstrap_servers=first.bootstrap)
    wanted: dict[str, Any] = {}
    for spec in names.specs(required_retention_ms(plan)):
        on = [second.node, third.node] if spec.name == names.reports(0) else [first.node]
        numbers = range(spec.partitions)
        wanted[spec.name] = {
            "assignments": dict.fromkeys(numbers, on),
            "configs": {**spec.settings, "min.insync.replicas": "1"},
        }
    admin.create_topics(wanted)
    where = ("--plan", file, "--bootstrap", first.bootstrap, "--namespace", "unclean")

    def send(number: int) -> bool:
        client = connect(first.bootstrap)
        try:
            value = body(plan, 0, [1])
            key = number.to_bytes(16, "big")
            client.sink().send(names.reports(0), key, value, partition=0).wait(10)
        except CalmstreamError:
            return False
        finally:
            client.close()
        return True

    def leader() -> int:
        found = admin.describe_topics([names.reports(0)])
        return int(found[0]["partitions"][0]["leader_id"])

    def counted() -> int:
        found = run("inspect", *where, "--json").stdout
        return sum(p["reports"] for p in json.loads(found)["partitions"]) if found else -1

    until("both replicas take records", lambda: send(1), SECONDS)
    worker = Process(tmp_path / "tally.log", "consume", *where, "--role", "tally")
    worker.ready(SECONDS)
    third.kill()
    for number in range(2, 6):
        until("the other replica takes records", lambda n=number: send(n), SECONDS)
    until("all are counted", lambda: counted() == 5, SECONDS, 1.0)
    second.kill()
    third.start()
    until("the replica without the newest records leads", lambda: leader() == third.node, SECONDS)
    admin.close()
    until("the worker stops", lambda: not worker.alive(), SECONDS)
    again = Process(tmp_path / "again.log", "consume", *where, "--role", "tally")
    until("it does not start again", lambda: not again.alive(), SECONDS)
    said = again.log.read_text()
    assert "the broker lost records" in said or "counted up to" in said, said
    assert '"fault"' in run("status", *where, "--json").stdout
