"""Check that a killed worker loses no report and counts none twice, on a real broker.

The processes and the signals are real. The counts are compared with a recount of the log that does
not use the product's code.
"""

from __future__ import annotations

import secrets
import signal
import subprocess
import time
from pathlib import Path

import pytest

from calmstream.consumer.subscribe.subscribe import plan_names
from tests.support.plans import pair_plan
from tests.support.service.processes import Process, command, run, until
from tests.support.service.recount import read_all, recount_grr, stored_counts

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(900)]

REPORTS = 120_000


def halt_with_unsaved_records(worker: Process, bootstrap: str, state: str) -> float:
    """Halt a worker while it holds counts that are not stored; return the records it had read."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        read = worker.metric("calmstream_records_read_total")
        worker.signal(signal.SIGSTOP)
        _, offsets = stored_counts(bootstrap, state)
        if sum(offsets.values()) < read:
            return read
        # A checkpoint came between the answer and the halt.
        worker.signal(signal.SIGCONT)
        time.sleep(0.5)
    raise AssertionError("no moment with unsaved records")


def test_a_worker_that_is_killed_loses_nothing(kafka_bootstrap: str, tmp_path: Path) -> None:
    start = int(time.time()) - 3600
    plan = pair_plan(f"it-{secrets.token_hex(3)}", start, 86_400, 2, partitions=3, grace=600)
    names = plan_names(plan)
    path, records = tmp_path / "plan.json", tmp_path / "records.csv"
    path.write_bytes(plan.to_bytes())
    rows = "\n".join(",".join(f"{i:04b}") for i in (n % 16 for n in range(REPORTS)))
    records.write_text(f"{','.join(plan.domain.names)}\n{rows}\n")
    where = ["--plan", path, "--bootstrap", kafka_bootstrap]
    made = run("topics", *where)
    assert made.returncode == 0, made.stderr

    def worker(name: str, *more: object) -> Process:
        return Process(tmp_path / f"{name}.log", "consume", *where, "--role", "tally", *more)

    def stored() -> int:
        return sum(stored_counts(kafka_bootstrap, names.state)[0].values())

    # Rare checkpoints, so that the kill loses counted but unsaved records.
    running = [worker("first", "--checkpoint-seconds", 3)]
    sent = ["produce", *where, "--records", records, "--batch-size", 500, "--rate", REPORTS / 12]
    try:
        running[0].ready()
        with subprocess.Popen(command(sent)) as producer:
            until("a checkpoint", lambda: running[0].metric("calmstream_checkpoints_total") > 0, 90)
            read = halt_with_unsaved_records(running[0], kafka_bootstrap, names.state)
            running[0].kill()
            running.append(worker("second"))
            running[1].ready(90)
            assert producer.wait(180) == 0
        until("all counted", lambda: stored() == REPORTS, 120)
        read += running[1].metric("calmstream_records_read_total")
        running[1].signal(signal.SIGTERM)
        assert running[1].wait(60) == 0, running[1].tail()
    finally:
        for one in running:
            one.kill()
    log = sum(len(read_all(kafka_bootstrap, topic)) for topic in names.all_reports)
    assert read > log, "unsaved records were read again"
    expected = recount_grr(kafka_bootstrap, list(names.all_reports))
    assert sum(expected.values()) == REPORTS
    assert stored_counts(kafka_bootstrap, names.state)[0] == expected
