"""Measure the cost of a worker, alone and beside others, on a backlog that exists before it starts.

    python -m benchmarks.service.scaling [--bootstrap B] [--reports N] [--workers 1,2,4] [--runs R]
                                 [--company N] [--memory]

Loads a reports topic of eight partitions. Then 1, 2 and 4 worker processes of one group count it
from the start, in turn and R times, each time into a namespace of its own. Prints the CPU-seconds
(user and system, of all workers of the group) per million reports. *In all* is from the start of
the processes to the last report. *While tallying* is from the first reading of a worker that has
counted something to the last before it is done. The difference is the start: imports, connections,
the group.

Two busy cores are slower, each, than one busy core. So that runs differ in the size of the group
only, workers in groups and namespaces of their own fill the number of workers up to ``--company``
(by default the largest of ``--workers``); ``--company 0`` starts none.

``--memory`` prints one worker's peak resident memory at backlogs of 1 and 10 million reports.
Without ``--bootstrap`` the script starts a Kafka of its own.
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

from broker.kafka import connect
from consumer.subscribe.subscribe import plan_names
from estimators.domain import Domain
from estimators.plan import Group, Plan
from estimators.view import View
from estimators.wire.batch import Batch, encode_batch
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
    """Append ``reports`` reports: a hundred bodies, each batch with an id of its own."""
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


@dataclass(frozen=True)
class Reading:
    """A reading of a worker: CPU-seconds used, and its metrics."""

    cpu: float
    page: Counter[str]

    @property
    def counted(self) -> float:
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
    """Return sums over all label sets."""
    found: Counter[str] = Counter()
    for line in page.splitlines():
        if line.startswith(WATCHED):
            found[line.split("{")[0].split(" ")[0]] += float(line.rsplit(" ", 1)[1])
    return found


def count(
    bootstrap: str, path: Path, size: int, reports: int, directory: Path, company: int = 0
) -> list[Worker]:
    """Let a group of workers count the backlog; return after they have ended."""
    names = [f"run-{secrets.token_hex(3)}" for _ in range(1 + max(0, company - size))]
    for name in names:
        made = run(
            *("topics", "--plan", path, "--bootstrap", bootstrap, "--output-namespace", name)
        )
        assert made.returncode == 0, made.stderr
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
    # Records read again count again, so only the lag shows that all were read.
    return total[WATCHED[0]] >= reports and tuple(total.values())[1:] == (PARTITIONS, 0)


@dataclass(frozen=True)
class Cost:
    """CPU-seconds per million reports of one count."""

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
    for reports in (1_000_000, 10_000_000):
        path = prepared(bootstrap, directory, reports)
        (worker,) = count(bootstrap, path, 1, reports, directory)
        print(f"{reports:12,} reports of backlog: peak {worker.peak_mb:6.1f} MB", flush=True)


def measure_cost(bootstrap: str, directory: Path, args: argparse.Namespace) -> None:
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
