"""What a worker costs, alone and beside others, on a backlog that is there before it starts.

    python benchmarks/scaling.py [--bootstrap B] [--reports N] [--workers 1,2,4] [--memory]

Loads a reports topic of eight partitions, then lets 1, 2 and 4 worker processes count it from the
start, each time into a namespace of its own: CPU-seconds (user and system, of all workers) per
million reports, start-up apart. With ``--memory``, one worker's peak resident memory at backlogs of
1 and 10 million reports. Starts a Kafka of its own without ``--bootstrap``.
"""

from __future__ import annotations

import argparse
import os
import secrets
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
sys.path.insert(0, str(ROOT / "tests" / "integration"))

import numpy as np  # noqa: E402 - the path is set above
from processes import Process, run, until  # noqa: E402 - the same

from broker.kafka import connect  # noqa: E402 - the same
from consumer.subscribe import plan_names  # noqa: E402 - the same
from estimators.domain import Domain  # noqa: E402 - the same
from estimators.plan import Group, Plan  # noqa: E402 - the same
from estimators.view import View  # noqa: E402 - the same
from estimators.wire.batch import Batch, encode_batch  # noqa: E402 - the same
from tests.brokers.native import NativeKafka  # noqa: E402 - the same

PARTITIONS = 8
BATCH = 1000
WATCHED = (
    "calmstream_reports_accepted_total",
    "calmstream_assigned_partitions",
    "calmstream_consumer_lag_records",
)
TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")


def plan_of() -> Plan:
    """OUE over 64 cells: what CALM takes for a view of six binary attributes."""
    start = int(time.time()) // 3600 * 3600 - 3600
    return Plan(
        name=f"scale-{secrets.token_hex(3)}",
        purpose="benchmark",
        owner="benchmark",
        lineage="0" * 32,
        domain=Domain.binary(6),
        epsilon="1",
        k=2,
        method="calm",
        parameters={},
        groups=(Group({"name": "oue", "cells": 64}, (View(tuple(range(6))),), (1,)),),
        start=start,
        expires=start + 86_400,
        window=86_400,
        users=10_000_000,
        marginals=((0, 1),),
        partitions=PARTITIONS,
    )


def load(bootstrap: str, plan: Plan, reports: int) -> None:
    """Append so many reports; the same hundred bodies under ids of their own."""
    dice = np.random.Generator(np.random.PCG64(1))
    columns = plan.mechanisms[0].columns
    bodies = []
    for _ in range(100):
        rows = dice.integers(256, size=(BATCH, 8), dtype=np.uint8)
        bodies.append(encode_batch(plan, 0, Batch(0, BATCH, None, {columns[0].name: rows})))
    broker = connect(bootstrap)
    sink = broker.sink()
    topic = plan_names(plan, "calmstream").reports(0)
    sent = []
    for number in range(reports // BATCH):
        sent.append(
            sink.send(
                topic, secrets.token_bytes(16), bodies[number % 100], partition=number % PARTITIONS
            )
        )
        if len(sent) > 400:
            sent.pop(0).wait(60)
    for delivery in sent:
        delivery.wait(60)
    broker.close()


class Usage:
    """What a process has used so far, from /proc."""

    def __init__(self, pid: int) -> None:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1].split()
        self.cpu = (int(fields[11]) + int(fields[12])) / TICKS_A_SECOND
        status = Path(f"/proc/{pid}/status").read_text()
        self.peak_mb = int(status.split("VmHWM:")[1].split()[0]) / 1024


def numbers(page: str) -> Counter[str]:
    """Sums over all label sets."""
    found: Counter[str] = Counter()
    for line in page.splitlines():
        if line.startswith(WATCHED):
            found[line.split("{")[0].split(" ")[0]] += float(line.rsplit(" ", 1)[1])
    return found


def count(
    bootstrap: str, path: Path, workers: int, reports: int, directory: Path
) -> tuple[float, float, float]:
    """(CPU-seconds of all workers, largest peak memory in MB, wall seconds) of one count."""
    namespace = f"run-{secrets.token_hex(3)}"
    where = ["--plan", path, "--bootstrap", bootstrap, "--output-namespace", namespace]
    assert run("topics", *where).returncode == 0
    log = directory / f"{namespace}.log"
    team = [Process(log, "consume", *where, "--role", "tally") for _ in range(workers)]
    try:
        for one in team:
            until("started", lambda one=one: one.page("/livez")[0] == 200, 120)
        began, before = time.monotonic(), [Usage(one.child.pid) for one in team]

        def counted() -> bool:
            # Seldom, since a worker pays for its page; one page of each a time.
            time.sleep(0.5)
            pages = [numbers(one.page("/metrics")[1]) for one in team]
            total = {name: sum(page.get(name, 0) for page in pages) for name in WATCHED}
            # Records read again count again: only no lag anywhere tells that all were read.
            return total[WATCHED[0]] >= reports and tuple(total.values())[1:] == (PARTITIONS, 0)

        until("counted", counted, 600)
        wall = time.monotonic() - began
        after = [Usage(one.child.pid) for one in team]
    finally:
        for one in team:
            one.kill()
    cpu = sum(a.cpu - b.cpu for a, b in zip(after, before, strict=True))
    return cpu, max(a.peak_mb for a in after), wall


def prepared(bootstrap: str, directory: Path, reports: int) -> Path:
    """A plan whose reports topic holds a backlog."""
    plan = plan_of()
    path = directory / f"{plan.name}.json"
    path.write_bytes(plan.to_bytes())
    assert run("topics", "--plan", path, "--bootstrap", bootstrap).returncode == 0
    load(bootstrap, plan, reports)
    return path


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bootstrap")
    parser.add_argument("--reports", type=int, default=4_000_000)
    parser.add_argument("--workers", default="1,2,4")
    parser.add_argument("--memory", action="store_true")
    args = parser.parse_args()
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="scaling-")))
        bootstrap = args.bootstrap
        if bootstrap is None:
            bootstrap = stack.enter_context(NativeKafka(directory / "broker")).bootstrap
        if args.memory:
            for reports in (1_000_000, 10_000_000):
                path = prepared(bootstrap, directory, reports)
                _, peak, _ = count(bootstrap, path, 1, reports, directory)
                print(f"{reports:12,} reports of backlog: peak {peak:6.1f} MB", flush=True)
            return 0
        path = prepared(bootstrap, directory, args.reports)
        for workers in map(int, args.workers.split(",")):
            cpu, peak, wall = count(bootstrap, path, workers, args.reports, directory)
            each = cpu / args.reports * 1e6
            print(
                f"{workers} workers: {each:6.3f} CPU-seconds per million reports "
                f"({wall:.1f} s on this machine, peak {peak:.0f} MB a worker)",
                flush=True,
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
