"""Change topics of a running plan; judge by what was acknowledged, counted and said."""

from __future__ import annotations

import http.client
import json
import time
import uuid
from pathlib import Path

import pytest
from kafka import KafkaAdminClient
from kafka.admin import NewPartitions

from calmstream.broker.kafka import connect
from calmstream.consumer.subscribe.subscribe import plan_names
from calmstream.topics import ensure_topics
from tests.support.gateway.running import line
from tests.support.gateway.spool_world import counting_plan
from tests.support.ports import free_port
from tests.support.service.processes import Process, run, until

pytestmark = pytest.mark.kafka

SECONDS = 120.0


class Stage:
    """One plan on real Kafka with a gateway, a worker and a publisher, each a process."""

    def __init__(self, folder: Path, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.namespace = f"changed-{uuid.uuid4().hex[:8]}"
        self.plan = counting_plan(window=600, start=int(time.time()) - 5)
        self.names = plan_names(self.plan, self.namespace)
        plans = folder / "plans"
        plans.mkdir()
        (plans / "plan.json").write_bytes(self.plan.to_bytes())
        self.where = ("--bootstrap", bootstrap, "--namespace", self.namespace)
        self.chosen = ("--plan", plans / "plan.json", *self.where)
        broker = connect(bootstrap)
        ensure_topics(broker, self.plan, self.names)
        broker.close()
        self.port = free_port()
        self.gateway = Process(
            folder / "gateway.log", "gateway", "--plans", plans, *self.where,
            "--spool", folder / "spool", "--port", self.port, "--min-batch", 1, "--allow-unsigned",
        )  # fmt: skip
        self.consume = Process(folder / "consume.log", "consume", *self.chosen, "--role", "all")
        self.acknowledged = 0
        until("both are ready", lambda: self.ready() == (200, 200), SECONDS)

    def ready(self) -> tuple[int, int]:
        """Return what the gateway and the service say of their readiness."""
        return self.gateway.page("/readyz")[0], self.consume.page("/readyz")[0]

    def report(self) -> str:
        """Send one report; return the reason of a refusal."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        body = line(self.plan, self.acknowledged % 16, uuid.uuid4().hex)
        path = f"/v1/plans/{self.plan.digest}/reports"
        connection.request("POST", path, body, {"content-type": "application/json"})
        answer = connection.getresponse()
        document = json.loads(answer.read())
        connection.close()
        self.acknowledged += answer.status == 202
        return "" if answer.status == 202 else str(document.get("reason", document))

    def said(self, command: str) -> str:
        return run(command, *self.chosen, "--json").stdout

    def counted(self) -> int:
        return sum(p["reports"] for p in json.loads(self.said("inspect"))["partitions"])

    def end(self) -> None:
        for process in (self.gateway, self.consume):
            process.kill()


@pytest.fixture
def stage(tmp_path: Path, kafka_bootstrap: str) -> Stage:
    return Stage(tmp_path, kafka_bootstrap)


def test_partitions_added_to_a_topic_lose_no_acknowledged_report(stage: Stage) -> None:
    try:
        for _ in range(50):
            assert stage.report() == ""
        admin = KafkaAdminClient(bootstrap_servers=stage.bootstrap)
        admin.create_partitions({stage.names.reports(0): NewPartitions(total_count=4)})
        admin.close()
        until("reports are refused", lambda: stage.report() == "not_counted", SECONDS)
        assert stage.acknowledged > 50, "some were accepted before the gateway knew"
        until("all that was accepted is counted", lambda: stage.counted() == stage.acknowledged,
              SECONDS, pause=1.0)  # fmt: skip
        until("both say so", lambda: stage.ready() == (503, 503), SECONDS)
        assert "has 4 partitions, the plan states 1" in stage.consume.page("/readyz")[1]
        assert "has 4 partitions" in stage.said("status")
        assert '"fault"' in stage.said("status")
    finally:
        stage.end()


def test_a_state_topic_that_is_no_longer_compacted_stops_the_plan_with_the_remedy(
    stage: Stage,
) -> None:
    try:
        assert stage.report() == ""
        broker = connect(stage.bootstrap)
        broker.topics().alter([stage.names.state], {"cleanup.policy": "delete"})
        until("the service ends", lambda: stage.consume.child.poll() is not None, SECONDS)
        assert "cleanup.policy=delete, not compact; set it back" in stage.consume.log.read_text()
        assert '"fault"' in stage.said("status")
        broker.topics().alter([stage.names.state], {"cleanup.policy": "compact"})
        broker.close()
        again = Process(stage.consume.log, "consume", *stage.chosen, "--role", "tally")
        until("everything is counted", lambda: stage.counted() == stage.acknowledged, SECONDS, 1.0)
        again.kill()
    finally:
        stage.end()
