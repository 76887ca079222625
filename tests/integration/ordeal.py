"""An ordeal: real workers on a broker of their own while reports flow and faults happen.

Used twice: a short one in the test suite, a long one by hand (``make soak``). What was counted is
compared, cell by cell, with a recount that uses none of the product's code.
"""

from __future__ import annotations

import contextlib
import random
import secrets
import signal
import subprocess
import threading
import time
import urllib.request
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from kafka import KafkaProducer
from processes import Process, command, run, until
from recount import read_all, recount_grr, stored_counts

from estimators.domain import Domain
from estimators.plan import Group, Plan
from estimators.view import View
from tests.brokers.native import NativeKafka

GROUPS = 3
PARTITIONS = 4
FAULTS = ("kill", "freeze", "terminate", "broker", "resend")
# Between two looks at the workers' pages: each look costs every worker milliseconds.
LOOK_SECONDS = 0.2


def ordeal_plan() -> Plan:
    """Three pairs of four bits by GRR; one window that outlasts the ordeal."""
    views = ((0, 1), (1, 2), (2, 3))
    start = int(time.time()) // 3600 * 3600 - 3600
    return Plan(
        name=f"ordeal-{secrets.token_hex(3)}",
        purpose="a test",
        owner="tests",
        lineage=secrets.token_hex(16),
        domain=Domain.binary(4),
        epsilon="2",
        k=2,
        method="calm",
        parameters={},
        groups=tuple(Group({"name": "grr", "cells": 4}, (View(v),), (1,)) for v in views),
        start=start,
        expires=start + 86_400,
        window=86_400,
        users=1_000_000,
        marginals=((0, 1),),
        partitions=PARTITIONS,
    )


@dataclass
class Outcome:
    """What an ordeal showed. Seconds.

    ``during`` counts the faults that began while the edge was still sending.
    ``recovery`` holds, per kind of fault, the time from its beginning (for a freeze: from the
    signal that stops) until every partition had an owner that answers and is nearly at its end.
    """

    reports: int = 0
    resent: int = 0
    faults: int = 0
    during: int = 0
    longest_gap: float = 0.0
    seconds: float = 0.0
    recovery: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    def lines(self) -> list[str]:
        head = (
            f"{self.reports:,} reports, {self.resent:,} batches resent, {self.faults} faults in "
            f"{self.seconds:.0f} s, {self.during} of them while reports flowed; longest gap "
            f"without progress {self.longest_gap:.1f} s"
        )
        told = [head]
        for kind, times in sorted(self.recovery.items()):
            told.append(
                f"{kind:10} x{len(times):3}: recovered in {np.median(times):5.1f} s (median), "
                f"{max(times):5.1f} s (worst)"
            )
        return told


class Ordeal:
    """One run. ``workers`` processes count ``reports`` reports sent at ``rate`` a second.

    A silence of ``session`` seconds costs a worker its partitions; a freeze lasts half as long
    again. What the broker's restart and the recoveries take is the machine's.
    """

    def __init__(
        self,
        broker: NativeKafka,
        directory: Path,
        *,
        reports: int,
        rate: float,
        workers: int = 3,
        session: float = 6.0,
    ) -> None:
        self.broker = broker
        self.directory = directory
        self.reports = reports
        self.rate = rate
        self.session = session
        self.plan = ordeal_plan()
        self.path = directory / "plan.json"
        self.path.write_bytes(self.plan.to_bytes())
        self.where = ["--plan", self.path, "--bootstrap", broker.bootstrap]
        self.outcome = Outcome(reports)
        self.workers: list[Process] = []
        self.frozen: set[int] = set()
        self.count = workers
        self.started = 0
        self._seen: dict[int, float] = {}
        self._moved = time.monotonic()
        self._stop = threading.Event()
        self._done_at = 0.0

    def prefix(self) -> str:
        return f"calmstream.{self.plan.name}-{self.plan.digest[:8]}"

    def topics(self) -> list[str]:
        return [f"{self.prefix()}.reports.g{g:04d}" for g in range(GROUPS)]

    def play(self, faults: list[str], pause: float, seed: int = 20261120) -> Outcome:
        """Start everything, let the faults happen one after another, end, and compare."""
        made = run("topics", *self.where)
        assert made.returncode == 0, made.stderr
        records = self.directory / "records.npz"
        self._write_records(records)
        self.workers = [self._start() for _ in range(self.count)]
        began = time.monotonic()
        watcher = threading.Thread(target=self._watch, daemon=True)
        words = ["--records", records, "--rate", self.rate, "--batch-size", 500]
        spool = self.directory / "spool"
        log = (self.directory / "produce.log").open("ab")
        producer = subprocess.Popen(
            command(["produce", *self.where, *words, "--spool", spool]), stdout=log, stderr=log
        )
        try:
            until("all partitions owned", self._settled, 90, LOOK_SECONDS)
            until("reports flow", self._flowing, 120, LOOK_SECONDS)
            self._moved = time.monotonic()
            watcher.start()
            dice = random.Random(seed)
            for kind in faults:
                time.sleep(pause)
                self.outcome.during += producer.poll() is None
                self._suffer(kind, dice)
            assert producer.wait(self.reports / self.rate + 240) == 0, self._tail()
            until("all reports counted", self._all_counted, 180, LOOK_SECONDS)
            self.outcome.seconds = time.monotonic() - began
            self._stop.set()
            self._end()
        finally:
            self._stop.set()
            producer.kill()
            log.close()
            for worker in self.workers:
                with contextlib.suppress(Exception):
                    worker.signal(signal.SIGCONT)
                worker.kill()
        self._compare()
        return self.outcome

    # Faults

    def _suffer(self, kind: str, dice: random.Random) -> None:
        began = time.monotonic()
        place = dice.randrange(len(self.workers))
        getattr(self, f"_{kind}")(place)
        until(f"recovery from {kind}", self._settled, 120, LOOK_SECONDS)
        self.outcome.recovery[kind].append(time.monotonic() - began)
        self.outcome.faults += 1

    def _kill(self, place: int) -> None:
        self.workers[place].kill()
        self.workers[place] = self._start()

    def _terminate(self, place: int) -> None:
        worker = self.workers[place]
        worker.signal(signal.SIGTERM)
        assert worker.wait(40) == 0, worker.tail()
        self.workers[place] = self._start()

    def _freeze(self, place: int) -> None:
        """Longer than the session: others take over, then the zombie comes back to life."""
        worker = self.workers[place]
        self.frozen.add(worker.port)
        worker.signal(signal.SIGSTOP)
        time.sleep(1.5 * self.session)
        worker.signal(signal.SIGCONT)
        self.frozen.discard(worker.port)
        time.sleep(1)
        if not worker.alive():
            # It noticed that it had been away and wrote nothing more: as promised, and loudly.
            assert "no poll for" in worker.tail(), worker.tail()
            self.workers[place] = self._start()

    def _broker(self, _place: int) -> None:
        self.broker.stop()
        time.sleep(self.session / 3)
        self.broker.start()

    def _resend(self, _place: int) -> None:
        """The newest records of every topic once more, byte for byte, as an edge's retry would."""
        producer = KafkaProducer(bootstrap_servers=self.broker.bootstrap, acks="all")
        for topic in self.topics():
            for record in read_all(self.broker.bootstrap, topic)[-20:]:
                if record.key is not None:
                    producer.send(topic, record.value, record.key, partition=record.partition)
                    self.outcome.resent += 1
        producer.flush(30)
        producer.close()

    # Watching

    def _start(self) -> Process:
        self.started += 1
        log = self.directory / f"worker-{self.started}.log"
        settings = {
            "CALMSTREAM_SESSION_SECONDS": str(self.session),
            "CALMSTREAM_CHECKPOINT_SECONDS": "2",
            "CALMSTREAM_LOG_LEVEL": "info",
        }
        return Process(log, "consume", *self.where, "--role", "tally", settings=settings)

    def _metrics(self, worker: Process) -> dict[str, float]:
        """Sums by metric; empty while it does not answer."""
        found: dict[str, float] = defaultdict(float)
        try:
            url = f"http://127.0.0.1:{worker.port}/metrics"
            with urllib.request.urlopen(url, timeout=1) as page:
                text = page.read().decode()
        except OSError:
            return {}
        for line in text.splitlines():
            if line.startswith("calmstream_"):
                name, value = line.split("{")[0].split(" ")[0], line.rsplit(" ", 1)[1]
                found[name] += float(value)
        return found

    def _settled(self) -> bool:
        """Whether all workers are up, and own every partition less than a second's records behind.

        One that is still starting would meet the next fault without its signal handlers.
        """
        self._restart_dead()
        found = [self._metrics(w) for w in self.workers if w.port not in self.frozen]
        owned = sum(one.get("calmstream_assigned_partitions", 0) for one in found)
        lag = sum(one.get("calmstream_consumer_lag_records", 0) for one in found)
        return all(found) and owned == GROUPS * PARTITIONS and lag <= max(50, 2 * self.rate / 500)

    def _flowing(self) -> bool:
        found = [self._metrics(w) for w in self.workers]
        return sum(one.get("calmstream_batches_accepted_total", 0) for one in found) > 30

    def _restart_dead(self) -> None:
        """As an orchestrator would; a worker that ends says why."""
        for place, worker in enumerate(self.workers):
            if not worker.alive():
                assert "calmstream: " in worker.tail(), worker.tail()
                self.workers[place] = self._start()

    def _watch(self) -> None:
        """Note the longest time in which no worker read a record, while there are any to come."""
        while not self._stop.wait(0.3):
            for worker in list(self.workers):
                if worker.port in self.frozen:
                    continue
                read = self._metrics(worker).get("calmstream_records_read_total", 0)
                if read > self._seen.get(worker.port, 0):
                    self._seen[worker.port] = read
                    now = time.monotonic()
                    self.outcome.longest_gap = max(self.outcome.longest_gap, now - self._moved)
                    self._moved = now

    # The end

    def _all_counted(self) -> bool:
        self._restart_dead()
        counts, _ = stored_counts(self.broker.bootstrap, f"{self.prefix()}.state")
        return sum(counts.values()) >= self.reports

    def _end(self) -> None:
        for worker in self.workers:
            worker.signal(signal.SIGTERM)
        for worker in self.workers:
            assert worker.wait(40) == 0, worker.tail()

    def _compare(self) -> None:
        expected = recount_grr(self.broker.bootstrap, self.topics())
        stored, _ = stored_counts(self.broker.bootstrap, f"{self.prefix()}.state")
        assert sum(expected.values()) == self.reports
        assert stored == expected
        left = list((self.directory / "spool").rglob("*.json"))
        assert not left, f"{len(left)} batches were never acknowledged"

    def _write_records(self, path: Path) -> None:
        generator = np.random.Generator(np.random.PCG64(1))
        np.savez(path, records=generator.integers(16, size=self.reports, dtype=np.uint8))

    def _tail(self) -> str:
        return (self.directory / "produce.log").read_text()[-3000:]
