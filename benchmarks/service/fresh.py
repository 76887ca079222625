"""Measure ``calmstream serve``: the first answer about a range, and the next 50 about it.

    python -m benchmarks.service.fresh [--attributes 8,16,32,64] [--methods noise-aware,calm]

Each case has a server process of its own, with a broker in memory, 24 windows of 10,000 devices,
items of Kosarak (for 64 attributes these twice), epsilon 1. Nobody asked for the range of twelve
windows before. The memory is the server's peak at the end.
"""

from __future__ import annotations

import argparse
import itertools
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from statistics import median

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import httpx
import numpy as np

from benchmarks.populations import population
from calmstream.broker.in_process import InProcessBroker
from calmstream.consumer.publish.build import build_set, count_records
from calmstream.consumer.publish.merge import MergedWindow
from calmstream.consumer.runtime.service import configure_logging
from calmstream.consumer.subscribe.subscribe import plan_names
from calmstream.estimators import methods
from calmstream.estimators.domain import Domain
from calmstream.estimators.plan import Plan
from calmstream.estimators.plan.request import Request
from calmstream.estimators.tally import Tally
from calmstream.estimators.wire.snapshot import Kind
from calmstream.estimators.wire.state import WindowCount
from calmstream.evaluation.population import collect, draw, local_plan
from calmstream.local_service import local_results
from tests.support.serving import wait_for

DEVICES, WINDOWS, QUESTIONS, HOUR = 10_000, 24, 50, 3600


def make_plan(d: int, method: str) -> Plan:
    """Return a plan of hourly windows that publishes one table: the questions are not about it."""
    plan = local_plan(methods.get(method), Request(Domain.binary(d), "1", DEVICES, 2))
    times = {"expires": WINDOWS * HOUR, "window": HOUR}
    return replace(plan, name="fresh", marginals=((0,),), **times)


def fill(plan: Plan, broker: InProcessBroker) -> None:
    """Write what a publisher would."""
    names, sink = plan_names(plan, "calmstream"), broker.sink()
    broker.topics().create(names.specs(7 * 24 * HOUR * 1000))
    codes = population("kosarak").codes
    codes = np.hstack([codes, codes[::-1]])[:, : len(plan.domain)]
    total: list[Tally] = []
    for window in range(WINDOWS):
        rows = draw(codes, DEVICES, np.random.default_rng([20261123, window]))
        tallies = collect(plan, rows, np.random.SeedSequence([window, 3]), exact=True)
        total = [a + b for a, b in zip(total, tallies, strict=True)] if total else tallies
        revision = (1 + window,) * (len(plan.groups) * plan.partitions)
        final, sums = (
            MergedWindow(window, kind, revision, tuple(map(WindowCount, counted)))
            for kind, counted in ((Kind.FINAL, tallies), (Kind.TOTAL, total))
        )
        for key, value in count_records(plan, final, sums):
            sink.send(names.counts, key, value, partition=0)
        for merged in (final, sums):
            made = build_set(plan, merged, counts=merged is final)
            for key, value in (*made.tables(), made.closing()):
                sink.send(names.snapshots, key, value, partition=0)
    sink.close(10)


def serve(d: int, method: str) -> None:
    """Print an address, serve until stdin is closed, and print the peak memory."""
    configure_logging("error")
    plan, broker = make_plan(d, method), InProcessBroker()
    fill(plan, broker)
    with local_results(plan, broker, "calmstream", 0) as address:
        print(f"{address}/v1/plans/{plan.name}", flush=True)
        sys.stdin.read()
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10, flush=True)


@contextmanager
def served(d: int, method: str) -> Iterator[str]:
    """Run a server in a process of its own; yield its address; print its memory afterwards."""
    command = [sys.executable, "-m", "benchmarks.service.fresh", "--serve"]
    command += ["--attributes", str(d), "--methods", method]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        memory, _ = process.communicate()
        print(f"  peak memory of the server: {memory.strip()} MB", flush=True)


def ask(address: str, d: int) -> None:
    """Ask about one range that was not asked for."""
    random, times = np.random.default_rng(5), []
    with httpx.Client(base_url=address, timeout=60) as client:
        wait_for(lambda: client.get("/tables?attributes=a0").status_code == 200)
        asked = ["a0"]
        for _ in range(1 + QUESTIONS):
            given = f"&given={asked[0]}" if len(asked) > 1 and random.random() < 0.5 else ""
            began = time.perf_counter()
            found = client.get(f"/tables?attributes={','.join(asked)}&windows=3..14{given}")
            times.append(time.perf_counter() - began)
            found.raise_for_status()
            asked = [f"a{i}" for i in random.choice(d, int(random.integers(1, 4)), replace=False)]
    first, *rest = times
    print(
        f"  first {first:.2f} s; next {QUESTIONS}: {sum(rest):.2f} s, median "
        f"{1000 * median(rest):.1f} ms, slowest {1000 * max(rest):.1f} ms"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--attributes", default="8,16,32,64")
    parser.add_argument("--methods", default="noise-aware,calm")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    for method, d in itertools.product(
        args.methods.split(","), map(int, args.attributes.split(","))
    ):
        if args.serve:
            serve(d, method)
            continue
        print(f"{method}, {d} attributes", flush=True)
        with served(d, method) as address:
            ask(address, d)


if __name__ == "__main__":
    main()
