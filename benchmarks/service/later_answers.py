"""Measure later questions: their times, their memory, and the topics that they read.

    python -m benchmarks.service.later_answers fresh
    python -m benchmarks.service.later_answers long --bootstrap B

``fresh``: the first answer about a range of windows, which reads and fits, and the next 50 about
the same range, over an in-process broker; plans of 8 to 64 binary attributes (items of Kosarak, and
for 64 these twice), 24 windows of 10,000 devices, epsilon 1.

``long``: a plan of 90 days of hourly windows over a real broker: the sizes of its topics as they
are sent, and the time and memory of ``calmstream query``. All tables of a window are there, so that
the reader meets as many records as in service; they are those of the first window.

Every case runs in a process of its own. Memory is the peak of the resident set of that process.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from statistics import median

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from benchmarks.populations import population
from calmstream.broker.in_process import InProcessBroker
from calmstream.broker.kafka import connect
from calmstream.broker.transport import Broker, Delivery
from calmstream.consumer.publish.build import build_set, count_records
from calmstream.consumer.publish.merge import MergedWindow
from calmstream.consumer.read.history import History
from calmstream.consumer.subscribe.subscribe import plan_names
from calmstream.estimators import methods
from calmstream.estimators.domain import Domain
from calmstream.estimators.plan import Plan
from calmstream.estimators.plan.request import Request
from calmstream.estimators.tally import Tally
from calmstream.estimators.wire.snapshot import Kind
from calmstream.estimators.wire.state import WindowCount
from calmstream.evaluation.population import collect, draw
from calmstream.evaluation.rounds import local_plan

DEVICES = 10_000
EPSILON = "1"
K = 2
DAY_MS = 86_400_000
KEPT = 7 * DAY_MS
HOURS_OF_90_DAYS = 90 * 24
QUESTIONS = 50


def make_plan(d: int, method: str, windows: int) -> Plan:
    """Return a plan that publishes all pairs, hourly windows."""
    domain = Domain.binary(d)
    plan = local_plan(methods.get(method), Request(domain, EPSILON, DEVICES, K))
    marginals = [s for k in range(1, K + 1) for s in combinations(range(d), k)]
    return replace(
        plan,
        name=f"later-{secrets.token_hex(3)}",
        expires=windows * 3600,
        window=3600,
        marginals=tuple(marginals),
    )


def records_of(d: int) -> np.ndarray:
    """Return the codes of records with d attributes."""
    codes = population("kosarak").codes
    return np.hstack([codes, codes[::-1]])[:, :d]


class Filler:
    """Writes what a publisher would: counts, and tables and manifests of finals and totals."""

    def __init__(self, plan: Plan, broker: Broker, codes: np.ndarray, *, tables: bool) -> None:
        self.names = plan_names(plan, "calmstream")
        broker.topics().create(self.names.specs(KEPT))
        self.sent = {self.names.counts: 0, self.names.snapshots: 0}
        self._plan, self._codes, self._tables = plan, codes, tables
        self._sink = broker.sink()
        self._pending: list[Delivery] = []
        self._total: list[Tally] | None = None
        self._sets: dict[Kind, list[tuple[bytes, bytes]]] = {}

    def window(self, window: int) -> None:
        """Write one window."""
        random = np.random.default_rng([20261123, window])
        codes = draw(self._codes, DEVICES, random)
        tallies = collect(self._plan, codes, np.random.SeedSequence([window, 3]), exact=True)
        before = self._total
        self._total = (
            tallies if before is None else [a + b for a, b in zip(before, tallies, strict=True)]
        )
        final = self._merged(window, Kind.FINAL, tallies)
        total = self._merged(window, Kind.TOTAL, self._total)
        for key, value in count_records(self._plan, final, total):
            self._send(self.names.counts, key, value)
        for merged in (final, total):
            for key, value in self._set(merged):
                self._send(self.names.snapshots, key, value)

    def finish(self) -> None:
        """Wait until all is written."""
        for delivery in self._pending:
            delivery.wait(60)
        self._sink.close(10)

    def _merged(self, window: int, kind: Kind, tallies: list[Tally]) -> MergedWindow:
        revision = (1 + window,) * (len(self._plan.groups) * self._plan.partitions)
        return MergedWindow(window, kind, revision, tuple(WindowCount(t) for t in tallies))

    def _set(self, merged: MergedWindow) -> Iterator[tuple[bytes, bytes]]:
        """Yield the records of a set: those of window 0 under another number, manifest last."""
        kind = merged.kind
        if kind not in self._sets:
            made = build_set(self._plan, merged, counts=kind is Kind.FINAL)
            self._sets[kind] = [*(made.tables() if self._tables else []), made.closing()]
        old = json.dumps([1] * len(merged.revision), separators=(",", ":")).encode()
        new = json.dumps(list(merged.revision), separators=(",", ":")).encode()
        for key, value in self._sets[kind]:
            moved = value.replace(b'"window":0,', b'"window":%d,' % merged.window, 1)
            moved = moved.replace(b'"0/', b'"%d/' % merged.window)  # keys in a manifest
            yield re.sub(rb"^0/", b"%d/" % merged.window, key), moved.replace(old, new, 1)

    def _send(self, topic: str, key: bytes, value: bytes) -> None:
        self.sent[topic] += len(key) + len(value)
        self._pending.append(self._sink.send(topic, key, value, partition=0))
        while len(self._pending) > 2000:
            self._pending.pop(0).wait(60)


def peak_mb() -> float:
    """Return the peak resident memory of this process in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def fresh(d: int, method: str) -> dict[str, float]:
    """Ask about one range; return seconds and memory."""
    plan, broker = make_plan(d, method, 24), InProcessBroker()
    filler = Filler(plan, broker, records_of(d), tables=False)
    for window in range(24):
        filler.window(window)
    filler.finish()
    before, random = peak_mb(), np.random.default_rng(5)
    with History(plan, broker) as history:
        began = time.perf_counter()
        history.refresh()
        read = time.perf_counter() - began
        history.ask([plan.domain.names[0]], "3..14")
        first = time.perf_counter() - began
        times = []
        for _ in range(QUESTIONS):
            k = int(random.integers(1, 4))
            names = [plan.domain.names[i] for i in random.choice(d, k, replace=False)]
            began = time.perf_counter()
            history.ask(names, "3..14", given=names[:1] if k > 1 and random.random() < 0.5 else ())
            times.append(time.perf_counter() - began)
    return {
        "read": read,
        "first": first,
        "next": sum(times),
        "median": median(times),
        "slowest": max(times),
        "before": before,
        "peak": peak_mb(),
    }


def long(d: int, method: str, bootstrap: str, windows: int) -> dict[str, float]:
    """Fill the topics of a long plan and run ``calmstream query`` on them."""
    plan, broker = make_plan(d, method, windows), connect(bootstrap)
    filler = Filler(plan, broker, records_of(d), tables=True)
    for window in range(windows):
        filler.window(window)
    filler.finish()
    found: dict[str, float] = {
        "groups": len(plan.groups),
        "counts MB": filler.sent[filler.names.counts] / 1e6,
        "snapshots MB": filler.sent[filler.names.snapshots] / 1e6,
    }
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "plan.json"
        path.write_bytes(plan.to_bytes())
        for asked in (f"0..{windows - 1}", "latest"):
            name = "all" if asked != "latest" else asked
            found |= {f"{name} {unit}": x for unit, x in query(path, bootstrap, asked).items()}
    broker.topics().delete([s.name for s in filler.names.specs(KEPT)])
    broker.close()
    return found


def query(plan: Path, bootstrap: str, windows: str) -> dict[str, float]:
    """Return seconds, processor seconds and peak memory in MB of one ``calmstream query``."""
    where = ["--plan", str(plan), "--bootstrap", bootstrap]
    command = [sys.executable, "-m", "calmstream", "query", *where, "--windows", windows]
    began = time.perf_counter()
    with subprocess.Popen([*command, "--attributes", "a0,a1", "--format", "json"]) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"calmstream query ended with {process.returncode}")
    cpu = usage.ru_utime + usage.ru_stime
    return {"s": time.perf_counter() - began, "CPU s": cpu, "MB": usage.ru_maxrss / 1024}


def in_own_process(*options: str) -> dict[str, float]:
    """Measure one case in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.service.later_answers", *options, "--here"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("fresh", "long"))
    parser.add_argument("--attributes", default="8,16,32,64")
    parser.add_argument("--methods", default="noise-aware,calm")
    parser.add_argument("--bootstrap", default="localhost:9092")
    parser.add_argument("--windows", type=int, default=HOURS_OF_90_DAYS)
    parser.add_argument("--here", action="store_true", help="one case, in this process")
    args = parser.parse_args()
    for method in args.methods.split(","):
        for d in args.attributes.split(","):
            if args.here:
                if args.what == "fresh":
                    found = fresh(int(d), method)
                else:
                    found = long(int(d), method, args.bootstrap, args.windows)
                print(json.dumps(found))
                continue
            more = ("--bootstrap", args.bootstrap, "--windows", str(args.windows))
            found = in_own_process(args.what, "--methods", method, "--attributes", d, *more)
            line = ", ".join(f"{name} {value:.3g}" for name, value in found.items())
            print(f"{method}, d = {d}: {line}", flush=True)


if __name__ == "__main__":
    main()
