"""The whole pipeline in one process: devices, broker, tally worker, publisher, subscriber.

All parts are the real ones: devices perturb with the operating system's randomness, batches go
through the broker, windows close by its append times. The broker may be embedded.
"""

from __future__ import annotations

import csv
import gzip
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from itertools import combinations

import numpy as np
from prometheus_client import CollectorRegistry

from broker.clock import SystemClock
from broker.transport import Broker
from calmstream.topics import ensure_topics
from consumer.metrics.publisher import publisher_metrics
from consumer.metrics.registry import tally_metrics
from consumer.publish.config import PublisherConfig
from consumer.publish.publisher import Publisher
from consumer.runtime.config import TallyConfig, load
from consumer.subscribe.subscribe import Snapshot, plan_names, subscribe
from consumer.tally.worker import TallyWorker
from estimators import planning
from estimators.domain import Attribute, Codes, Domain
from estimators.errors import FatalError
from estimators.marginal import sse, total_variation
from estimators.plan import Guarantee, Plan
from estimators.plan.request import Request
from estimators.wire.snapshot import Kind
from producer.simulation.produce import Summary, produce

EPSILON = "1"
K = 3
WINDOWS = 5
WINDOW_SECONDS = 8
GRACE_SECONDS = 2
PATIENCE_SECONDS = 60
"""Longest wait for the last snapshot after the plan's end."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of the demo; ``--json`` prints it.

    Errors are means over all 3-way marginals of the running total against the truth of all devices.
    """

    reports: int
    accepted: int
    rejected: int
    windows: int
    snapshots: int
    method: str
    epsilon: float
    sse_mean: float
    tv_mean: float
    uniform_sse: float
    reports_per_second: float


def adult() -> tuple[Domain, Codes]:
    """Return domain and records of the shipped data: shape (32561, 8), uint16."""
    source = files("calmstream.data").joinpath("adult.csv.gz")
    rows = list(csv.reader(gzip.decompress(source.read_bytes()).decode().splitlines()))
    columns = {name: column for name, *column in zip(*rows, strict=True)}
    domain = Domain(
        tuple(Attribute(name, tuple(sorted(set(column)))) for name, column in columns.items())
    )
    return domain, domain.encode(columns)


def draw_plan(domain: Domain, reports: int, method: str) -> Plan:
    """Return a plan that starts within a second, so that the first window is complete."""
    d = len(domain)
    marginals = [m for size in (1, 2, K) for m in combinations(range(d), size)]
    plan, _ = planning.draft(
        method,
        Request(domain, EPSILON, max(1, reports // WINDOWS), K),
        name="demo",
        purpose="to show calmstream at work",
        owner="whoever runs it",
        lineage=secrets.token_hex(16),
        start=int(time.time()) + 1,
        window=WINDOW_SECONDS,
        windows=WINDOWS,
        grace=GRACE_SECONDS,
        skew=GRACE_SECONDS,
        partitions=1,
        guarantee=Guarantee("once"),
        marginals=marginals,
    )
    return plan


def pacing_seconds(plan: Plan, now: int) -> float:
    """Return the seconds over which devices report, from ``now`` (ms) or the plan's start.

    Half of the last window stays free, so that every device reports also on a busy machine.
    """
    left = plan.window_end(plan.windows - 1) - max(now, plan.window_start(0))
    return max(1.0, left / 1000 - plan.window / 2)


class Demo:
    """One run of the pipeline.

    Args:
        broker: embedded or Kafka; stays the caller's to close.
        reports: number of devices, drawn with replacement from the shipped data.
        method: registry name.

    Attributes:
        plan: the plan of the devices.
        sent: progress of the devices; replaced as they report.
    """

    def __init__(self, broker: Broker, reports: int, method: str) -> None:
        self._broker = broker
        domain, records = adult()
        rows = np.random.Generator(np.random.PCG64(secrets.randbits(64))).integers(
            len(records), size=reports
        )
        self.codes = records[rows]
        self.plan = draw_plan(domain, reports, method)
        self.names = plan_names(self.plan, "demo")
        self.sent = Summary(reports)
        self._stop = threading.Event()
        self._failure: Exception | None = None

    def run(self) -> Iterator[Snapshot]:
        """Run everything; yield snapshots, the plan's last running total at the end.

        Raises:
            FatalError: a part failed, or the last total did not appear in time.
        """
        ensure_topics(self._broker, self.plan, self.names)
        deadline = time.monotonic() + WINDOWS * WINDOW_SECONDS + PATIENCE_SECONDS
        threads = [
            threading.Thread(target=self._guard, args=(part,), daemon=True)
            for part in (
                self._tally,
                self._publish,
                self._devices,
                partial(self._watchdog, deadline),
            )
        ]
        for thread in threads:
            thread.start()
        try:
            for snapshot in subscribe(
                self.plan, self._broker, namespace="demo", stop=self._stop, poll_seconds=0.1
            ):
                yield snapshot
                if snapshot.kind is Kind.TOTAL and snapshot.window == self.plan.windows - 1:
                    return
        finally:
            self._stop.set()
            for thread in threads:
                thread.join(20)
        raise self._failure or FatalError("the demo ended without its last snapshot")

    def _guard(self, part: Callable[[], None]) -> None:
        try:
            part()
        except Exception as error:  # noqa: BLE001 - the error is raised by run
            self._failure = self._failure or error
            self._stop.set()

    def _tally(self) -> None:
        TallyWorker(
            self.plan,
            self._broker,
            self.names,
            SystemClock(),
            load(TallyConfig, checkpoint_seconds=1.0, poll_seconds=0.1),
            tally_metrics(CollectorRegistry(), self.plan, self.names),
        ).run(self._stop)

    def _publish(self) -> None:
        Publisher(
            self.plan,
            self._broker,
            self.names,
            clock=SystemClock(),
            config=load(PublisherConfig, refresh_seconds=2.0, poll_seconds=0.1),
            metrics=publisher_metrics(CollectorRegistry(), self.plan, self.names),
        ).run(self._stop)

    def _devices(self) -> None:
        rate = len(self.codes) / pacing_seconds(self.plan, SystemClock().now_ms())
        summary = produce(
            self.plan,
            self._broker,
            self.names,
            self.codes,
            rate=rate,
            linger=0.5,
            progress=self._note,
            stop=self._stop,
        )
        self._note(summary)
        if summary.error is not None:
            raise summary.error

    def _note(self, summary: Summary) -> None:
        self.sent = summary

    def _watchdog(self, deadline: float) -> None:
        if not self._stop.wait(max(0.0, deadline - time.monotonic())):
            raise FatalError(f"the last snapshot did not appear within {PATIENCE_SECONDS} s")


def summarise(demo: Demo, last: Snapshot, snapshots: int, seconds: float) -> Outcome:
    """Compare the running total with the truth: means over the 3-way marginals."""
    plan, domain = demo.plan, demo.plan.domain
    errors, distances, baseline = [], [], []
    for attributes in (m for m in plan.marginals if len(m) == K):
        truth = domain.histogram(demo.codes, attributes) / len(demo.codes)
        record = last.record(*(domain.names[i] for i in attributes))
        table = np.array(record.table)
        errors.append(sse(table, truth))
        distances.append(total_variation(table, truth))
        baseline.append(sse(np.full(len(truth), 1 / len(truth)), truth))
    return Outcome(
        reports=len(demo.codes),
        accepted=last.manifest.reports,
        rejected=sum(last.manifest.rejected.values()),
        windows=plan.windows,
        snapshots=snapshots,
        method=plan.method,
        epsilon=float(plan.epsilon),
        sse_mean=float(np.mean(errors)),
        tv_mean=float(np.mean(distances)),
        uniform_sse=float(np.mean(baseline)),
        reports_per_second=last.manifest.reports / seconds,
    )
