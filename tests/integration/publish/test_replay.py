"""Check that a replay gives the same final snapshots.

A replay counts an old log again and publishes the results in another namespace.
"""

from __future__ import annotations

import json
import secrets
import signal
import time
from pathlib import Path

import pytest

from calmstream.estimators import planning
from calmstream.estimators.domain import Domain
from calmstream.estimators.plan import Guarantee, Plan
from calmstream.estimators.plan.request import Request
from tests.support.service.processes import Process, run, until
from tests.support.service.recount import read_all

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(900)]

# Long enough for the processes to start, and the records to be sent, on a busy machine.
WINDOW_SECONDS = 12
START_SECONDS = 30
RECORDS = 1800
WINDOWS = 3


def short_plan() -> Plan:
    plan, _ = planning.draft(
        "calm",
        Request(Domain.binary(4), "1", 10_000, 2),
        name=f"replay-{secrets.token_hex(3)}",
        purpose="a test",
        owner="tests",
        lineage=secrets.token_hex(16),
        start=int(time.time()) + START_SECONDS,
        window=WINDOW_SECONDS,
        windows=WINDOWS,
        grace=1,
        skew=1,
        partitions=2,
        guarantee=Guarantee(),
    )
    return plan


def closed_sets(bootstrap: str, namespace: str, plan: Plan) -> dict[bytes, bytes]:
    """Return every record of a final or total, with the newest value of each key."""
    topic = f"{namespace}.{plan.name}-{plan.digest[:32]}.snapshots"
    records = {record.key: record.value for record in read_all(bootstrap, topic)}
    return {key: value for key, value in records.items() if b"/early/" not in key}


def kept_records(bootstrap: str, namespace: str, plan: Plan) -> dict[bytes, bytes]:
    """Return the newest counts of each window and group, and the tests of change of each window."""
    topic = f"{namespace}.{plan.name}-{plan.digest[:32]}.counts"
    return {record.key: record.value for record in read_all(bootstrap, topic)}


def test_a_replayed_log_gives_identical_finals(kafka_bootstrap: str, tmp_path: Path) -> None:
    plan = short_plan()
    path, records = tmp_path / "plan.json", tmp_path / "records.csv"
    path.write_bytes(plan.to_bytes())
    rows = "\n".join(f"{i & 1},{i >> 1 & 1},{i >> 2 & 1},{i >> 3 & 1}" for i in range(RECORDS))
    records.write_text(f"{','.join(plan.domain.names)}\n{rows}\n")
    where = ["--plan", path, "--bootstrap", kafka_bootstrap]
    assert run("topics", *where).returncode == 0
    expected = WINDOWS * 3

    def published(namespace: str) -> bool:
        """Return whether all windows are final and tested."""
        sets = closed_sets(kafka_bootstrap, namespace, plan)
        kept = kept_records(kafka_bootstrap, namespace, plan)
        manifests = sum(key.endswith(b"/manifest") for key in sets)
        return manifests == expected and sum(k.endswith(b"/changes") for k in kept) == WINDOWS

    live = Process(tmp_path / "live.log", "consume", *where)
    try:
        # The producer waits for the start of the plan; the log waits for the worker.
        rate = RECORDS / (WINDOW_SECONDS * WINDOWS - 12)
        sent = run("produce", *where, "--records", records, "--rate", rate, seconds=180)
        assert sent.returncode == 0, sent.stderr
        until("all windows final and tested", lambda: published("calmstream"), 180)
        live.signal(signal.SIGTERM)
        assert live.wait(60) == 0
    finally:
        live.kill()

    assert run("topics", *where, "--output-namespace", "again").returncode == 0
    again = Process(tmp_path / "again.log", "consume", *where, "--output-namespace", "again")
    try:
        until("all windows final and tested again", lambda: published("again"), 180)
    finally:
        again.kill()

    first = closed_sets(kafka_bootstrap, "calmstream", plan)
    second = closed_sets(kafka_bootstrap, "again", plan)
    assert len(first) > expected
    assert second == first
    records_kept = kept_records(kafka_bootstrap, "calmstream", plan)
    assert len(records_kept) == WINDOWS * (len(plan.groups) + 1)
    assert kept_records(kafka_bootstrap, "again", plan) == records_kept

    asked = run("query", *where, "--attributes", "a0,a1", "--format", "json")
    assert asked.returncode == 0, asked.stderr
    answer = json.loads(asked.stdout)
    total = json.loads(first[f"{WINDOWS - 1}/total/a0+a1".encode()])
    assert answer["table"] == pytest.approx(total["table"], abs=1e-12)
    assert answer["stderr"] == pytest.approx(total["stderr"])
    assert answer["revision"] == total["revision"]

    done = run("replay", *where, "--output-namespace", "once-more")
    assert done.returncode == 0, done.stderr
    assert closed_sets(kafka_bootstrap, "once-more", plan) == first
    assert kept_records(kafka_bootstrap, "once-more", plan) == records_kept
