"""Real processes and a real broker: plans come and go, and a deleted topic stops only its plan."""

from __future__ import annotations

import json
import signal
import time
import uuid
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calmstream.broker.kafka import connect
from calmstream.consumer.metrics.registry import plan_label
from calmstream.consumer.subscribe.subscribe import plan_names
from calmstream.estimators.plan import Plan
from calmstream.estimators.wire.batch import Batch, encode_batch
from tests.support.plans import pair_plan
from tests.support.service.processes import Process, run, until

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(900)]

REPORTS = 100
GRACE = 15
"""Seconds for which a starved test may hold a batch: the tests count none as late."""


def plan_of(name: str) -> Plan:
    return pair_plan(name, int(time.time()) // 5 * 5, window=5, windows=120, grace=GRACE)


class Scene:
    """A namespace, a folder of plans, and one process that serves it."""

    def __init__(self, bootstrap: str, path: Path) -> None:
        self.namespace = f"many-{uuid.uuid4().hex[:8]}"
        self.folder = path / "plans"
        self.folder.mkdir()
        self.broker = connect(bootstrap)
        self.sink = self.broker.sink()
        self.bootstrap = bootstrap
        where = ("--bootstrap", bootstrap, "--namespace", self.namespace)
        self.options = ("--plans", self.folder, "--allow-unsigned", *where)
        self.service = Process(path / "log", "consume", *self.options, "--create-topics")

    def put(self, plan: Plan) -> None:
        (self.folder / f"{plan.name}.json").write_bytes(plan.to_bytes())

    def send(self, plan: Plan) -> None:
        """Send half of the reports to each group; so each topic holds what its loss would lose."""
        period = plan.window_at(int(time.time() * 1000))
        batch = Batch(period, REPORTS // 2, None, {"v": np.arange(REPORTS // 2) % 4})
        for group in range(2):
            topic = plan_names(plan, self.namespace).reports(group)
            body = encode_batch(plan, group, batch)
            self.sink.send(topic, uuid.uuid4().bytes, body, partition=0).wait(30)

    def state(self, role: str, plan: Plan) -> dict[str, Any]:
        body = self.service.page("/readyz", accept="application/json")[1]
        roles = json.loads(body)["roles"] if body else {}
        state: dict[str, Any] = roles.get(role, {}).get("plans", {}).get(plan_label(plan), {})
        return state

    def ready(self, plan: Plan) -> bool:
        roles = [self.state(role, plan) for role in ("tally", "publisher")]
        return all(role.get("well") and role.get("detail") == "ready" for role in roles)

    def metric(self, name: str, plan: Plan) -> float:
        label = f'plan="{plan_label(plan)}"'
        lines = self.service.page("/metrics")[1].splitlines()
        return sum(
            float(line.rsplit(" ", 1)[1])
            for line in lines
            if line.startswith(name + "{") and label in line
        )

    def counted(self, plan: Plan) -> float:
        return self.metric("calmstream_reports_accepted_total", plan)


def test_plans_come_and_go_and_a_fault_stays_with_its_plan(
    kafka_bootstrap: str, tmp_path: Path
) -> None:
    scene = Scene(kafka_bootstrap, tmp_path)
    try:
        _play(scene)
    finally:
        scene.service.kill()
        scene.broker.close()


def _play(scene: Scene) -> None:
    one, two = plan_of("one"), plan_of("two")
    scene.put(one)
    scene.put(two)
    (scene.folder / "broken.json").write_bytes(b"{")
    for plan in (one, two):
        until(f"{plan.name} is served", lambda plan=plan: scene.ready(plan), 90)  # type: ignore[misc]
        scene.send(plan)
        until("it is counted", lambda plan=plan: scene.counted(plan) == REPORTS, 60)  # type: ignore[misc]
    assert scene.service.metric("calmstream_plan_files_refused") == 1

    topics = scene.broker.topics()
    topics.delete([plan_names(one, scene.namespace).reports(1)])
    until("one is in quarantine", lambda: not scene.state("tally", one).get("well", True), 90)
    assert "quarantined" in scene.state("tally", one)["detail"]
    assert scene.metric("calmstream_tally_quarantined", one) == 1
    assert scene.service.page("/readyz")[0] == 200
    assert plan_label(one) in scene.service.page("/readyz")[1]
    scene.send(two)
    until("two is counted meanwhile", lambda: scene.counted(two) == 2 * REPORTS, 60)
    finals = "calmstream_final_snapshots_published_total"
    before = scene.metric(finals, two)
    until("two has another final", lambda: scene.metric(finals, two) > before, 90)

    status = run("status", *scene.options, "--json")
    assert status.returncode == 1
    health = {
        found.get("plan", found.get("file")): found["health"]
        for found in map(json.loads, status.stdout.splitlines())
    }
    assert health["one"] == "fault"
    assert health["two"] in ("well", "late")
    assert health["broken.json"] == "refused"

    (scene.folder / "two.json").unlink()
    until("two is given back", lambda: not scene.state("tally", two), 60)
    scene.send(two)
    scene.put(two)
    until("two is served again", lambda: scene.ready(two), 90)
    until("what came meanwhile is counted", lambda: scene.counted(two) == REPORTS, 60)
    scene.service.signal(signal.SIGTERM)
    assert scene.service.wait(60) == 0, scene.service.tail()
