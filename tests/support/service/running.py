"""Run tally workers on real Kafka in threads of the test.

Threads start faster than processes, and their state is easy to inspect.
"""

from __future__ import annotations

import secrets
import threading
import time
from dataclasses import dataclass, field
from typing import Any

from prometheus_client import CollectorRegistry

from calmstream.broker.kafka import connect
from calmstream.broker.kafka.broker import KafkaBroker
from calmstream.broker.names import TopicNames
from calmstream.broker.transport import Partition
from calmstream.common.clock import SystemClock
from calmstream.common.settings import load
from calmstream.consumer.metrics.registry import plan_metrics
from calmstream.consumer.metrics.tally import TALLY_METRICS
from calmstream.consumer.runtime.config import TallyConfig
from calmstream.consumer.runtime.context import TallyContext
from calmstream.consumer.runtime.service import Alone
from calmstream.consumer.tally.worker import TallyWorker
from calmstream.estimators.plan import Plan
from tests.support.tally import body, names_of, small_plan

SESSION_SECONDS = 20.0
HOUR_MS = 3_600_000


@dataclass
class Running:
    worker: TallyWorker
    registry: CollectorRegistry
    stop: threading.Event
    thread: threading.Thread
    failures: list[BaseException]

    def end(self, seconds: float = 30.0) -> None:
        self.stop.set()
        self.thread.join(seconds)
        assert not self.thread.is_alive()
        assert not self.failures, self.failures

    def failure(self, seconds: float) -> str:
        self.thread.join(seconds)
        assert not self.thread.is_alive(), f"still running after {seconds} s"
        (error,) = self.failures
        return f"{type(error).__name__}: {error}"

    def metric(self, name: str) -> float:
        return sum(
            sample.value
            for family in self.registry.collect()
            for sample in family.samples
            if sample.name == f"calmstream_{name}"
        )


@dataclass
class Stage:
    """A small plan's topics on a real broker, and workers on them.

    The plan has ``windows`` windows of ``window`` seconds, and began ``age`` seconds ago.
    """

    bootstrap: str
    groups: int = 1
    partitions: int = 1
    limits: dict[str, Any] = field(default_factory=dict)
    windows: int = 1
    window: int = 7200
    grace: int = 60
    age: int = 60

    def __post_init__(self) -> None:
        self.plan: Plan = small_plan(
            windows=self.windows,
            window=self.window,
            grace=self.grace,
            skew=60,
            groups=self.groups,
            partitions=self.partitions,
            start=int(time.time()) - self.age,
        )
        self.names: TopicNames = names_of(self.plan, f"stage-{secrets.token_hex(4)}")
        self.broker = self.connect()
        self.topics = self.broker.topics()
        self.topics.create(self.names.specs(HOUR_MS * 24))
        self.sink = self.broker.sink()
        self.sent = 0
        self.running: list[Running] = []

    def connect(self, **limits: Any) -> KafkaBroker:
        given = {"session_seconds": SESSION_SECONDS, "request_seconds": 10.0}
        return connect(self.bootstrap, **(given | self.limits | limits))

    def worker(self, clock: SystemClock | None = None, **settings: Any) -> Running:
        given = {
            "checkpoint_seconds": 0.5,
            "poll_seconds": 0.1,
            "session_seconds": SESSION_SECONDS,
            "retry_seconds": 15.0,
            "topic_check_seconds": 2.0,
        }
        registry = CollectorRegistry()
        broker = self.connect()
        config = load(TallyConfig, **(given | settings))
        metrics = plan_metrics(registry, self.plan, self.names, TALLY_METRICS)
        clock = clock or SystemClock()
        context = TallyContext("tally", self.plan, self.names, clock, config, metrics)
        worker = TallyWorker(context, broker)
        stop, failures = threading.Event(), []

        def live() -> None:
            try:
                Alone(worker).run(stop)
            except BaseException as error:  # noqa: BLE001 - asserted on by the test
                failures.append(error)
            finally:
                broker.close()

        thread = threading.Thread(target=live, daemon=True)
        running = Running(worker, registry, stop, thread, failures)
        self.running.append(running)
        thread.start()
        return running

    def send(self, count: int, group: int = 0) -> None:
        deliveries = []
        for _ in range(count):
            self.sent += 1
            value = body(self.plan, 0, [self.sent % 4], group)
            deliveries.append(
                self.sink.send(self.names.reports(group), secrets.token_bytes(16), value)
            )
        for delivery in deliveries:
            delivery.wait(30)

    def inputs(self) -> list[Partition]:
        return [Partition(t, n) for t in self.names.all_reports for n in range(self.partitions)]

    def accepted(self) -> float:
        return sum(one.metric("reports_accepted_total") for one in self.running)

    def close(self) -> None:
        for one in self.running:
            one.stop.set()
        for one in self.running:
            one.thread.join(30)
        self.broker.close()
