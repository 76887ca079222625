"""The life of a plan by its commands on a real broker: inspect, replay, retire."""

from __future__ import annotations

import json
import secrets
import signal
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from processes import Process, run, until
from recount import read_all

from estimators import planning
from estimators.domain import Domain
from estimators.methods.base import Request
from estimators.plan import Guarantee, Plan

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

REPORTS = 3000


@dataclass
class Stage:
    """A plan of three windows of five seconds, with its topics."""

    bootstrap: str
    plan: Plan
    where: list[object]

    def topic(self, namespace: str, kind: str) -> str:
        return f"{namespace}.{self.plan.name}-{self.plan.digest[:8]}.{kind}"

    def closed_sets(self, namespace: str) -> dict[bytes, bytes]:
        records = read_all(self.bootstrap, self.topic(namespace, "snapshots"))
        found = {record.key: record.value for record in records}
        return {k: v for k, v in found.items() if b"/early/" not in k and v is not None}


@pytest.fixture
def stage(kafka_bootstrap: str, tmp_path: Path) -> Stage:
    plan, _ = planning.draft(
        "calm",
        Request(Domain.binary(4), "1", REPORTS, 2),
        name=f"cmd-{secrets.token_hex(3)}",
        purpose="a test",
        owner="tests",
        lineage=secrets.token_hex(16),
        start=int(time.time()) + 4,
        window=5,
        windows=3,
        grace=1,
        skew=1,
        partitions=2,
        guarantee=Guarantee(),
    )
    path = tmp_path / "plan.json"
    path.write_bytes(plan.to_bytes())
    where = ["--plan", path, "--bootstrap", kafka_bootstrap]
    assert run("topics", *where).returncode == 0
    rows = "\n".join(f"{i & 1},{i >> 1 & 1},{i >> 2 & 1},{i >> 3 & 1}" for i in range(REPORTS))
    (tmp_path / "records.csv").write_text(f"{','.join(plan.domain.names)}\n{rows}\n")
    return Stage(kafka_bootstrap, plan, where)


def test_a_plan_is_inspected_replayed_and_retired(stage: Stage, tmp_path: Path) -> None:
    groups = len(stage.plan.groups)
    fast = {"CALMSTREAM_CHECKPOINT_SECONDS": "0.5"}
    service = Process(tmp_path / "service.log", "consume", *stage.where, settings=fast)
    try:
        service.ready()
        records = tmp_path / "records.csv"
        sent = run("produce", *stage.where, "--records", records, "--rate", 400, seconds=90)
        assert sent.returncode == 0, sent.stderr
        until("counted", lambda: inspected(stage)["lag"] == 0, 60)
        found = inspected(stage)
        assert sum(p["reports"] for p in found["partitions"]) == REPORTS
        assert len(found["partitions"]) == 2 * groups
        assert sum(g["planned"] for g in found["groups"]) == pytest.approx(1)
        shown = run("inspect", *stage.where)
        assert shown.returncode == 0, shown.stderr
        assert "input partitions" in shown.stdout
        until("all final", lambda: inspected(stage)["windows"]["final"] == 3, 90)
        service.signal(signal.SIGTERM)
        assert service.wait(40) == 0, service.tail()
    finally:
        service.kill()

    again = run("replay", *stage.where, "--output-namespace", "again", "--json")
    assert again.returncode == 0, again.stderr
    done = json.loads(again.stdout)
    assert (done["windows"], done["totals"], done["reports"]) == ([0, 1, 2], True, REPORTS)
    assert stage.closed_sets("again") == stage.closed_sets("calmstream")
    twice = run("replay", *stage.where, "--output-namespace", "again")
    assert twice.returncode == 2
    assert "holds snapshots already" in twice.stderr

    unsure = run("retire", *stage.where, said="no\n")
    assert unsure.returncode == 2
    assert "nothing was done" in unsure.stderr
    assert inspected(stage)["windows"]["final"] == 3
    retired = run("retire", *stage.where, "--yes", seconds=120)
    assert retired.returncode == 0, retired.stderr
    assert f"{groups + 2} topics deleted" in retired.stderr
    gone = run("inspect", *stage.where)
    assert gone.returncode == 1
    assert "does not exist" in gone.stderr
    assert len(stage.closed_sets("calmstream")) > 6, "the snapshots stay"


def inspected(stage: Stage) -> dict:
    done = run("inspect", *stage.where, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_retiring_early_publishes_the_last_finals_itself(stage: Stage, tmp_path: Path) -> None:
    """No service runs: the command counts, publishes and only then deletes."""
    records = tmp_path / "records.csv"
    until("begun", lambda: time.time() > stage.plan.start, 30)
    sent = run("produce", *stage.where, "--records", records, seconds=60)
    assert sent.returncode == 0, sent.stderr
    retired = run("retire", *stage.where, "--yes", seconds=150)
    assert retired.returncode == 0, retired.stderr
    assert "waiting for its final" in retired.stderr
    sets = stage.closed_sets("calmstream")
    finals = [json.loads(v) for k, v in sets.items() if k.endswith(b"/final/manifest")]
    assert sum(one["reports"] for one in finals) == REPORTS
    late = run("produce", *stage.where, "--records", records, seconds=60)
    assert late.returncode != 0
