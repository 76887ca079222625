"""Check that every report is counted exactly once on a real broker while processes are killed.

The processes and the signals are real. The counts are compared with a recount of the log that does
not use the product's code.
"""

from __future__ import annotations

import csv
import secrets
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from calmstream.estimators import planning
from calmstream.estimators.domain import Attribute, Domain
from calmstream.estimators.plan import Guarantee, Plan
from calmstream.estimators.plan.request import Request
from tests.support.service.processes import Process, command, run, until
from tests.support.service.recount import read_all, recount_grr, stored_counts

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(900)]

REPORTS = 1_000_000
FEWER = 120_000
BATCH = 500


@dataclass
class Stage:
    """A plan with its topics and a table of records on the session's broker."""

    bootstrap: str
    plan: Plan
    path: Path
    records: Path
    directory: Path

    @property
    def reports_topics(self) -> list[str]:
        prefix = f"calmstream.{self.plan.name}-{self.plan.digest[:32]}"
        return [f"{prefix}.reports.g{g:04d}" for g in range(len(self.plan.groups))]

    @property
    def state_topic(self) -> str:
        return f"calmstream.{self.plan.name}-{self.plan.digest[:32]}.state"

    def consume(self, name: str, *more: object) -> Process:
        log = self.directory / f"{name}.log"
        return Process(log, "consume", "--plan", self.path, "--bootstrap", self.bootstrap, *more)

    def produce(self, *more: object) -> list[object]:
        where = ["--plan", self.path, "--bootstrap", self.bootstrap, "--records", self.records]
        return ["produce", *where, "--batch-size", BATCH, *more]

    def assert_exact(self, reports: int) -> None:
        expected = recount_grr(self.bootstrap, self.reports_topics)
        stored, _ = stored_counts(self.bootstrap, self.state_topic)
        assert sum(expected.values()) == reports
        assert stored == expected


@pytest.fixture
def stage(kafka_bootstrap: str, tmp_path: Path) -> Stage:
    """Return a plan over four attributes of mixed cardinality, with three partitions per group."""
    domain = Domain(
        (
            Attribute("region", ("north", "south")),
            Attribute("theme", ("dark", "light", "system")),
            Attribute("crashed", ("no", "yes")),
            Attribute("channel", ("stable", "beta")),
        )
    )
    plan, _ = planning.draft(
        "calm",
        Request(domain, "2", REPORTS, 2),
        name=f"it-{secrets.token_hex(3)}",
        purpose="a test",
        owner="tests",
        lineage=secrets.token_hex(16),
        start=int(time.time()) // 3600 * 3600 - 3600,
        window=86_400,
        windows=2,
        grace=600,
        skew=600,
        partitions=3,
        guarantee=Guarantee(),
    )
    assert {group.mechanism["name"] for group in plan.groups} == {"grr"}
    path = tmp_path / "plan.json"
    path.write_bytes(plan.to_bytes())
    made = run("topics", "--plan", path, "--bootstrap", kafka_bootstrap)
    assert made.returncode == 0, made.stderr
    return Stage(kafka_bootstrap, plan, path, tmp_path / "records.csv", tmp_path)


def write_records(stage: Stage, n: int) -> None:
    generator = np.random.Generator(np.random.PCG64(20261120))
    labels = [np.array(a.labels) for a in stage.plan.domain.attributes]
    columns = [x[generator.integers(len(x), size=n)] for x in labels]
    with stage.records.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(stage.plan.domain.names)
        writer.writerows(zip(*columns, strict=True))


def log_end(stage: Stage) -> int:
    return sum(len(read_all(stage.bootstrap, topic)) for topic in stage.reports_topics)


def counted(stage: Stage) -> int:
    return sum(stored_counts(stage.bootstrap, stage.state_topic)[0].values())


def halt_with_unsaved_records(stage: Stage, worker: Process) -> float:
    """Halt a worker while it holds counts that are not stored; return the records it had read."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        read = worker.metric("calmstream_records_read_total")
        worker.signal(signal.SIGSTOP)
        _, offsets = stored_counts(stage.bootstrap, stage.state_topic)
        if sum(offsets.values()) < read:
            return read
        # A checkpoint came between the answer and the halt.
        worker.signal(signal.SIGCONT)
        time.sleep(0.5)
    raise AssertionError("no moment with unsaved records")


def stop_gracefully(worker: Process) -> None:
    worker.signal(signal.SIGTERM)
    assert worker.wait(60) == 0, worker.tail()


@pytest.mark.slow
def test_a_million_reports_are_counted_exactly(stage: Stage) -> None:
    write_records(stage, REPORTS)
    worker = stage.consume("worker")
    try:
        worker.ready()
        sent = run(*stage.produce(), seconds=240)
        assert sent.returncode == 0, sent.stderr
        until(
            "all counted",
            lambda: worker.metric("calmstream_reports_accepted_total") == REPORTS,
            120,
        )
        stop_gracefully(worker)
    finally:
        worker.kill()
    stage.assert_exact(REPORTS)


def test_a_worker_that_is_killed_loses_nothing(stage: Stage) -> None:
    write_records(stage, FEWER)
    # Rare checkpoints, so that the kill loses counted but unsaved records.
    first = stage.consume("first", "--role", "tally", "--checkpoint-seconds", 3)
    second = producer = None
    try:
        first.ready()
        producer = subprocess.Popen(command(stage.produce("--rate", FEWER / 12)))
        until("a checkpoint", lambda: first.metric("calmstream_checkpoints_total") > 0, 90)
        read_by_first = halt_with_unsaved_records(stage, first)
        first.signal(signal.SIGKILL)
        first.wait(60)
        second = stage.consume("second", "--role", "tally")
        second.ready(90)
        assert producer.wait(180) == 0
        until("all counted", lambda: counted(stage) == FEWER, 120)
        read_by_second = second.metric("calmstream_records_read_total")
        stop_gracefully(second)
    finally:
        if producer is not None:
            producer.kill()
        for worker in (first, second):
            if worker is not None:
                worker.kill()
    assert read_by_first + read_by_second > log_end(stage), "unsaved records were read again"
    stage.assert_exact(FEWER)
