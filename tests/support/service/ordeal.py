"""Run an *ordeal*: inject faults into real processes while reports are sent, then check all counts.

The processes run on their own broker. The test suite plays a short ordeal, ``make soak`` a long
one. One hostile record of each kind is sent every second. At the end, counts and published tables
are compared, cell by cell, with a recount that uses none of the product's code.
"""

from __future__ import annotations

import random
import secrets
import subprocess
import threading
import time
from contextlib import ExitStack
from pathlib import Path

import numpy as np
from kafka import KafkaProducer

from calmstream.broker.names import TopicNames
from calmstream.estimators.mechanisms.registry import standard
from calmstream.estimators.plan import Group, Plan
from calmstream.estimators.view import View
from calmstream.estimators.wire.snapshot import Kind
from tests.brokers.native import NativeKafka
from tests.brokers.segments import Stored, log_end, stored
from tests.support.plans import pair_plan
from tests.support.service.crew import Crew, metrics
from tests.support.service.hostile_sender import HostileSender
from tests.support.service.ordeal_checks import Comparison, Findings
from tests.support.service.ordeal_outcome import Outcome
from tests.support.service.processes import command, environment, run, until

GROUPS = 3
PARTITIONS = 4
FAULTS = ("kill", "freeze", "terminate", "broker", "resend")
"""Kinds of faults; each is a method of `Ordeal` with an underscore before its name."""

POLL_SECONDS = 0.2  # between reads of the processes' metrics; each costs every worker milliseconds


def ordeal_plan(window: int, grace: int) -> Plan:
    views = ((0, 1), (1, 2), (2, 3))
    start = int(time.time()) // window * window
    return pair_plan(
        f"ordeal-{secrets.token_hex(3)}",
        start,
        window,
        86_400 // window,
        lineage=secrets.token_hex(16),
        epsilon="2",
        groups=tuple(Group(standard("grr", "1", 4), (View(v),), (1,)) for v in views),
        users=1_000_000,
        grace=grace,
        skew=5,
        partitions=PARTITIONS,
    )


class Ordeal:
    """One run: workers count the reports of a producer while faults are injected.

    Times are in seconds, the rate is reports per second. A freeze lasts 1.5 times ``session``;
    finals must be published within ``latest`` after a window's end plus grace.
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
        window: int = 60,
        grace: int = 30,
        latest: float = 30.0,
    ) -> None:
        self.broker = broker
        self.directory = directory
        self.reports = reports
        self.rate = rate
        self.session = session
        self.latest = latest
        self.plan = plan = ordeal_plan(window, grace)
        self.names = TopicNames.of(plan)
        self.path = directory / "plan.json"
        self.path.write_bytes(plan.to_bytes())
        self.where = ["--plan", self.path, "--bootstrap", broker.bootstrap]
        self.outcome = Outcome(reports)
        self.findings = Findings(plan, self.names, broker.data)
        self.hostile = HostileSender(broker.bootstrap, plan, self.names, 1)
        self.crew: Crew
        self._producer: subprocess.Popen[bytes]
        self._seen: dict[int, float] = {}
        self._moved = time.monotonic()
        self._stop = threading.Event()
        self._roles = [*["tally"] * workers, "publish"]

    def play(self, faults: list[str], pause: float, seed: int = 20261120) -> Outcome:
        done = run("topics", *self.where)
        assert done.returncode == 0, done.stderr
        settings = {
            "CALMSTREAM_SESSION_SECONDS": str(self.session),
            "CALMSTREAM_CHECKPOINT_SECONDS": "2",
            "CALMSTREAM_LOG_LEVEL": "info",
        }
        with ExitStack() as ending:
            self.crew = Crew(self.directory, self.where, self._roles, settings)
            ending.callback(self.crew.close)
            began = time.monotonic()
            self._producer = self._produce()
            ending.callback(self._end_reporting)
            ending.callback(self._stop.set)
            self._begin()
            rng = random.Random(seed)
            for kind in faults:
                time.sleep(pause)
                self._keep_reporting()
                self.outcome.during += self._producer.poll() is None
                self._inject(kind, rng)
            assert self._producer.wait(self.reports / self.rate + 240) == 0, self._tail()
            self.hostile.stop()
            self._await_counts()
            self.outcome.seconds = time.monotonic() - began
            comparison = self._end()
        self._compare(comparison)
        return self.outcome

    def _produce(self) -> subprocess.Popen[bytes]:
        generator = np.random.Generator(np.random.PCG64(1))
        path = self.directory / "records.npz"
        np.savez(path, records=generator.integers(16, size=self.reports, dtype=np.uint8))
        words = ["--records", path, "--rate", self.rate, "--batch-size", 500]
        with self._log().open("ab") as log:
            return subprocess.Popen(
                command(["produce", *self.where, *words]),
                stdout=log,
                stderr=log,
                env=environment(),
            )

    def _keep_reporting(self) -> None:
        """Let as many reports follow, where all were sent: on a slow machine faults take longer."""
        if self._producer.poll() is None:
            return
        assert self._producer.returncode == 0, self._tail()
        before = self._newest_keys()
        self._producer = self._produce()
        self.outcome.reports += self.reports
        until("reports flow again", lambda: bool(self._newest_keys() - before), 120, 1.0)

    def _newest_keys(self) -> set[bytes]:
        return {
            record.key or b""
            for group, number in self.findings.inputs()
            for record in stored(self.broker.data, self.names.reports(group), number, newest=20)
            if self._from_the_edge(record)
        }

    def _end_reporting(self) -> None:
        self._producer.kill()
        self._producer.wait()

    def _begin(self) -> None:
        """Wait until all processes work, then watch them and start the hostile sender."""
        until("all partitions owned", self._settled, 90, POLL_SECONDS)
        until("reports are counted", self._flowing, 120, POLL_SECONDS)
        self._moved = time.monotonic()
        for watch in (self._watch_progress, self._watch_finals):
            threading.Thread(target=watch, daemon=True).start()
        self.hostile.start()

    # Faults

    def _inject(self, kind: str, rng: random.Random) -> None:
        began = time.monotonic()
        getattr(self, f"_{kind}")(rng.randrange(len(self._roles)))
        until(f"recovery from {kind}", self._settled, 120, POLL_SECONDS)
        self.outcome.recovery[kind].append(time.monotonic() - began)
        self.outcome.faults += 1

    def _kill(self, place: int) -> None:
        self.crew.kill(place)

    def _terminate(self, place: int) -> None:
        self.crew.terminate(place)

    def _freeze(self, place: int) -> None:
        """Halt a worker for longer than the session: others take over before it continues."""
        process = self.crew.freeze(place)
        time.sleep(1.5 * self.session)
        self.crew.thaw(process)
        time.sleep(1)

    def _broker(self, _place: int) -> None:
        self.broker.stop()
        time.sleep(self.session / 3)
        self.broker.start()

    def _resend(self, _place: int) -> None:
        """Send the newest batches of every partition again, as an edge that retries."""
        producer = KafkaProducer(bootstrap_servers=self.broker.bootstrap, acks="all")
        for group, number in self.findings.inputs():
            topic = self.names.reports(group)
            for record in stored(self.broker.data, topic, number, newest=40):
                if self._from_the_edge(record):
                    producer.send(topic, record.value, record.key, partition=number)
                    self.outcome.resent += 1
        producer.flush(30)
        producer.close()

    def _from_the_edge(self, record: Stored) -> bool:
        if record.key is None or record.key in self.hostile.keys:
            return False
        return len(record.key) == 16 and bool(record.value) and len(record.value) < 1 << 20

    # Watching

    def _settled(self) -> bool:
        """Return whether all processes answer, all partitions have readers, and one publishes.

        A partition counts as read when at most a second's records are left. A process that is
        still starting has no signal handlers yet, so the next fault waits for it.
        """
        self.crew.restart_dead()
        pages = self.crew.pages()
        owned = sum(one.get("calmstream_assigned_partitions", 0) for one in pages)
        lag = sum(one.get("calmstream_consumer_lag_records", 0) for one in pages)
        active = sum(one.get("calmstream_publisher_active", 0) for one in pages)
        near = lag <= max(50, 2 * self.rate / 500)
        return all(pages) and owned == GROUPS * PARTITIONS and near and active == 1

    def _flowing(self) -> bool:
        pages = self.crew.pages()
        return sum(one.get("calmstream_batches_accepted_total", 0) for one in pages) > 30

    def _watch_progress(self) -> None:
        while not self._stop.wait(0.3):
            for worker in self.crew.of("tally"):
                if worker.port in self.crew.frozen:
                    continue
                read = metrics(worker).get("calmstream_records_read_total", 0)
                if read > self._seen.get(worker.port, 0):
                    self._seen[worker.port] = read
                    now = time.monotonic()
                    self.outcome.longest_gap = max(self.outcome.longest_gap, now - self._moved)
                    self._moved = now

    def _watch_finals(self) -> None:
        while not self._stop.wait(0.5):
            now = time.time()
            for window in self.findings.manifests(Kind.FINAL):
                due = self.plan.window_end(window) / 1000 + self.plan.grace
                self.outcome.finals.setdefault(window, now - due)

    # The end

    def _await_counts(self) -> None:
        ends = {
            (group, number): log_end(self.broker.data, self.names.reports(group), number)
            for group, number in self.findings.inputs()
        }
        last = self.plan.window_at(time.time_ns() // 1_000_000)

        def counted() -> bool:
            self.crew.restart_dead()
            states = self.findings.newest_states()
            return all(states[where]["next_offset"] >= end for where, end in ends.items())

        until("all reports counted", counted, 180, 1.0)
        limit = self.plan.window + self.plan.grace + 2 * self.latest
        until("the last final", lambda: last in self.outcome.finals, limit, POLL_SECONDS)

    def _end(self) -> Comparison:
        self.crew.stop(*self.crew.of("tally"))
        comparison = Comparison.of(self.findings)
        kinds = (Kind.FINAL, Kind.TOTAL)
        until(
            "all windows published",
            lambda: all(len(self.findings.manifests(k)) == len(comparison.final) for k in kinds),
            60,
            POLL_SECONDS,
        )
        self._stop.set()
        self.crew.stop(*self.crew.of("publish"))
        return comparison

    def _compare(self, comparison: Comparison) -> None:
        outcome, sender = self.outcome, self.hostile
        outcome.left = self.crew.left
        comparison.check()
        honest: dict[bytes, int] = {}
        late: set[bytes] = set()
        for recount in comparison.recounts.values():
            honest |= {key: n for key, n in recount.keys.items() if key not in sender.keys}
            late |= recount.late - sender.keys
        outcome.late = sum(honest[key] for key in late)
        outcome.hostile, outcome.unacknowledged = sender.sent, sender.unacknowledged.total()
        outcome.rejections = comparison.rejects()
        assert sum(honest.values()) == outcome.reports, "each report once, counted or late"
        by_hand = outcome.rejections.total() - outcome.rejections["duplicate"]
        least, most = sender.rejects[0], sender.rejects[1] + self._late_batches(comparison)
        assert least <= by_hand <= most, f"{by_hand} rejections, {least} to {most} were caused"
        slow = {w: round(s, 1) for w, s in outcome.finals.items() if s > self.latest}
        assert not slow, f"finals later than {self.latest} s: {slow}"

    def _late_batches(self, comparison: Comparison) -> int:
        """Return how many late records, resends too, are not the hostile sender's late kind."""
        late = sum(
            s.rejects["late"] for r in comparison.recounts.values() for s in r.windows.values()
        )
        return max(0, late - self.hostile.sent["late"])

    def _log(self) -> Path:
        return self.directory / "produce.log"

    def _tail(self) -> str:
        return self._log().read_text()[-3000:]
