"""Measure the processor time of workers that count a backlog: of one worker, and of several.

    python -m benchmarks.service.scaling [--bootstrap B] [--reports N] [--workers 1,2,4] [--runs R]
                                 [--company N] [--memory]

The program fills a reports topic of eight partitions (the backlog). Then groups of 1, 2 and 4
worker processes count it from the start, one group after another, R times. Each group writes its
results under a different namespace. The program prints the CPU-seconds (user and system, of all
workers of the group) per million reports:

- *in all*: from the start of the processes to the last report;
- *while tallying*: from the first reading at which a worker has counted reports to the last one
  before it has finished.

The difference is the cost of the start: imports, connections, and joining the group.

A core is slower while the other cores are busy. To keep the load equal, further workers in groups
of their own run beside a small group, so that ``--company`` workers run in all (by default the
largest of ``--workers``); ``--company 0`` starts no further workers.

``--memory`` prints one worker's peak resident memory at backlogs of 1 and 10 million reports.
Without ``--bootstrap`` the program starts its own Kafka broker.
"""

from __future__ import annotations

import argparse
import os
import secrets
import statistics
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from calmstream.broker.kafka import connect
from calmstream.consumer.subscribe.subscribe import plan_names
from calmstream.estimators.domain import Domain
from calmstream.estimators.plan import Group, Plan
from calmstream.estimators.view import View
from calmstream.estimators.wire.batch import Batch, encode_batch
from tests.brokers.native import NativeKafka
from tests.support.service.processes import Process, run, until

PARTITIONS = 8
BATCH = 1000
WATCHED = (
    "calmstream_reports_accepted_total",
    "calmstream_assigned_partitions",
    "calmstream_consumer_lag_records",
)
# Rare readings, because each costs the worker 4 ms of CPU time.
READING_SECONDS = 5.0
TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")


def plan_of() -> Plan:
    """Return a plan of OUE over 64 cells, as CALM has for a view of six binary attributes."""
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
    """Append reports in batches of `BATCH`.

    A hundred different batches are encoded and sent again and again under new ids, because encoding
    each one would take longer than counting it.
    """
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
        if len(sent) > 400:  # at most 400 batches are unacknowledged
            sent.pop(0).wait(60)
    for delivery in sent:
        delivery.wait(60)
    broker.close()


@dataclass(frozen=True)
class Reading:
    """A reading of a worker.

    Attributes:
        cpu: CPU-seconds that the process has used since its start.
        page: the metrics in `WATCHED`, summed over their labels.
    """

    cpu: float
    page: Counter[str]

    @property
    def counted(self) -> float:
        """The number of reports that the worker has counted."""
        return self.page[WATCHED[0]]


class Worker:
    """A tally process that counts a backlog into a namespace, and its readings."""

    def __init__(self, bootstrap: str, path: Path, namespace: str, directory: Path) -> None:
        where = ["--plan", path, "--bootstrap", bootstrap, "--output-namespace", namespace]
        log = directory / f"{namespace}.log"
        self.process = Process(log, "consume", *where, "--role", "tally")
        self.readings: list[Reading] = []
        self.peak_mb = 0.0

    def read(self) -> Reading:
        """Take a reading, and note the peak memory."""
        fields = self._proc("stat").rsplit(") ", 1)[1].split()
        cpu = (int(fields[11]) + int(fields[12])) / TICKS_A_SECOND
        self.readings.append(Reading(cpu, numbers(self.process.page("/metrics")[1])))
        self.peak_mb = int(self._proc("status").split("VmHWM:")[1].split()[0]) / 1024
        return self.readings[-1]

    def tallying(self) -> tuple[float, float]:
        """Return (CPU-seconds, reports) between the first and the last reading while it counts."""
        end = self.readings[-1].counted
        middle = [reading for reading in self.readings if 0 < reading.counted < end]
        if len(middle) < 2:
            raise SystemExit("a worker was done too soon to be measured: more --reports")
        return middle[-1].cpu - middle[0].cpu, middle[-1].counted - middle[0].counted

    def _proc(self, what: str) -> str:
        return Path(f"/proc/{self.process.child.pid}/{what}").read_text()


def numbers(page: str) -> Counter[str]:
    """Return the watched metrics of a page in Prometheus format, summed over their labels."""
    sums: Counter[str] = Counter()
    for line in page.splitlines():
        if line.startswith(WATCHED):
            sums[line.split("{")[0].split(" ")[0]] += float(line.rsplit(" ", 1)[1])
    return sums


def count(
    bootstrap: str, path: Path, size: int, reports: int, directory: Path, company: int = 0
) -> list[Worker]:
    """Let a group of workers count the backlog; return them after they have ended."""
    names = [f"run-{secrets.token_hex(3)}" for _ in range(1 + max(0, company - size))]
    for name in names:
        done = run(
            *("topics", "--plan", path, "--bootstrap", bootstrap, "--output-namespace", name)
        )
        assert done.returncode == 0, done.stderr
    others = [Worker(bootstrap, path, name, directory) for name in names[1:]]
    team = [Worker(bootstrap, path, names[0], directory) for _ in range(size)]
    try:
        until("counted", lambda: _counted(team, reports), 900)
    finally:
        for one in team + others:
            one.process.kill()
    return team


def _counted(team: list[Worker], reports: int) -> bool:
    time.sleep(READING_SECONDS)
    pages = [one.read().page for one in team]
    total = {name: sum(page[name] for page in pages) for name in WATCHED}
    # After a rebalance some records are read and counted again. So the number of reports alone does
    # not show that all records were read; the lag does.
    return total[WATCHED[0]] >= reports and tuple(total.values())[1:] == (PARTITIONS, 0)


@dataclass(frozen=True)
class Cost:
    """CPU-seconds per million reports of one group (see the docstring of the module).

    Attributes:
        total: CPU-seconds of all work.
        tallying: CPU-seconds of tallying.
    """

    total: float
    tallying: float

    @classmethod
    def of(cls, team: list[Worker], reports: int) -> Cost:
        used = sum(one.readings[-1].cpu for one in team)
        cpu, done = map(sum, zip(*(one.tallying() for one in team), strict=True))
        return cls(used / reports * 1e6, cpu / done * 1e6)


def prepared(bootstrap: str, directory: Path, reports: int) -> Path:
    """Return a plan whose reports topic holds a backlog."""
    plan = plan_of()
    path = directory / f"{plan.name}.json"
    path.write_bytes(plan.to_bytes())
    assert run("topics", "--plan", path, "--bootstrap", bootstrap).returncode == 0
    load(bootstrap, plan, reports)
    return path


def measure_memory(bootstrap: str, directory: Path) -> None:
    """Print the peak memory of one worker for two sizes of the backlog."""
    for reports in (1_000_000, 10_000_000):
        path = prepared(bootstrap, directory, reports)
        (worker,) = count(bootstrap, path, 1, reports, directory)
        print(f"{reports:12,} reports of backlog: peak {worker.peak_mb:6.1f} MB", flush=True)


def measure_cost(bootstrap: str, directory: Path, args: argparse.Namespace) -> None:
    """Print the cost of each group, then medians over the runs and how far they are apart."""
    sizes = [int(size) for size in args.workers.split(",")]
    company = max(sizes) if args.company is None else args.company
    path = prepared(bootstrap, directory, args.reports)
    costs: dict[int, list[Cost]] = {size: [] for size in sizes}
    for _ in range(args.runs):
        for size in sizes:
            began = time.monotonic()
            team = count(bootstrap, path, size, args.reports, directory, company)
            cost = Cost.of(team, args.reports)
            costs[size].append(cost)
            print(
                f"{size} workers: {cost.tallying:.4f} CPU-seconds per million reports while "
                f"tallying, {cost.total:.4f} in all ({time.monotonic() - began:.0f} s, peak "
                f"{max(one.peak_mb for one in team):.0f} MB a worker)",
                flush=True,
            )
    for what in ("tallying", "total"):
        middle = [statistics.median(getattr(c, what) for c in costs[size]) for size in sizes]
        shown = ", ".join(f"{value:.4f}" for value in middle)
        print(f"{what:8}: medians {shown}; apart {max(middle) / min(middle) - 1:.1%}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bootstrap")
    parser.add_argument("--reports", type=int, default=200_000_000)
    parser.add_argument("--workers", default="1,2,4")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--company", type=int)
    parser.add_argument("--memory", action="store_true")
    args = parser.parse_args()
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="scaling-")))
        bootstrap = args.bootstrap
        if bootstrap is None:
            bootstrap = stack.enter_context(NativeKafka(directory / "broker")).bootstrap
        if args.memory:
            measure_memory(bootstrap, directory)
        else:
            measure_cost(bootstrap, directory, args)
    return 0


if __name__ == "__main__":
    sys.exit(main())
