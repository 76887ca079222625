"""Add partitions to a topic of a running plan: no acknowledged report is lost, and all say so."""

from __future__ import annotations

import json
import time
import uuid
from pathlib import Path

import pytest

from calmstream.broker.kafka import connect
from calmstream.broker.names import TopicNames
from calmstream.broker.topic_facts import ensure_topics
from tests.brokers.administration import grow
from tests.support.gateway.running import line
from tests.support.gateway.spool_world import counting_plan
from tests.support.ports import free_port
from tests.support.service.processes import Process, post_report, run, until

pytestmark = pytest.mark.kafka

SECONDS = 120.0


def test_partitions_added_to_a_topic_lose_no_acknowledged_report(
    tmp_path: Path, kafka_bootstrap: str
) -> None:
    plan, port, acknowledged = counting_plan(window=600, start=int(time.time()) - 5), free_port(), 0
    names = TopicNames.of(plan, f"changed-{uuid.uuid4().hex[:8]}")
    (tmp_path / "plans").mkdir()
    (tmp_path / "plans" / "plan.json").write_bytes(plan.to_bytes())
    where = ("--bootstrap", kafka_bootstrap, "--namespace", names.namespace)
    chosen = ("--plan", tmp_path / "plans" / "plan.json", *where)
    broker = connect(kafka_bootstrap)
    ensure_topics(broker, plan, names)
    broker.close()
    gateway = Process(
        tmp_path / "gateway.log", "gateway", "--plans", tmp_path / "plans", *where,
        "--spool", tmp_path / "spool", "--port", port, "--min-batch", 1, "--allow-unsigned",
    )  # fmt: skip
    consume = Process(tmp_path / "consume.log", "consume", *chosen, "--role", "all")

    def report() -> str:
        nonlocal acknowledged
        body = line(plan, acknowledged % 16, uuid.uuid4().hex)
        status, answer = post_report(port, plan.digest, body)
        acknowledged += status == 202
        return "" if status == 202 else str(answer.get("reason", answer))

    def said(name: str) -> str:
        return run(name, *chosen, "--json").stdout

    def all_counted() -> bool:
        counted = sum(p["reports"] for p in json.loads(said("inspect"))["partitions"])
        return bool(counted == acknowledged)

    def both(status: int) -> bool:
        return {one.page("/readyz")[0] for one in (gateway, consume)} == {status}

    try:
        until("both are ready", lambda: both(200), SECONDS)
        assert {report() for _ in range(50)} == {""}
        grow(kafka_bootstrap, names.reports(0), 4)
        until("reports are refused", lambda: report() == "not_counted", SECONDS)
        assert acknowledged > 50, "some were accepted before the gateway knew"
        until("all that was accepted is counted", all_counted, SECONDS, pause=1.0)
        until("both say so", lambda: both(503), SECONDS)
        assert "has 4 partitions, the plan states 1" in consume.page("/readyz")[1]
        status = said("status")
        assert "has 4 partitions" in status
        assert '"fault"' in status
    finally:
        gateway.kill()
        consume.kill()
