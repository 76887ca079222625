"""Real processes and a real broker: plans come and go, and a deleted topic stops only its plan."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from calmstream.consumer.metrics.registry import plan_label
from calmstream.consumer.subscribe.subscribe import plan_names
from tests.support.service.many_plans import REPORTS, Scene, plan_of
from tests.support.service.processes import run, until

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(900)]


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
