"""Run all roles on the in-process broker, with one clock that the test moves.

`Stage` has the broker, the plan's topics and the clock. It makes workers (which count reports) and
publishers (which publish tables), sends batches, and reads what the topics contain. A worker does
one step of its work in a *turn*, which the test calls.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from prometheus_client import CollectorRegistry

from calmstream.broker.names import TopicNames
from calmstream.broker.transport import Partition, Record
from calmstream.common.settings import load
from calmstream.consumer.metrics.registry import plan_metrics
from calmstream.consumer.metrics.tally import TALLY_METRICS
from calmstream.consumer.publish.config import PublisherConfig
from calmstream.consumer.publish.estimate_runner import EstimateRunner
from calmstream.consumer.publish.publisher import Publisher
from calmstream.consumer.runtime.config import TallyConfig
from calmstream.consumer.runtime.context import TallyContext
from calmstream.consumer.runtime.threads import begin
from calmstream.consumer.subscribe.assembler import Snapshot
from calmstream.consumer.subscribe.subscribe import subscribe
from calmstream.consumer.tally.folding.fold import PartitionFold
from calmstream.consumer.tally.worker import TallyWorker
from calmstream.estimators.plan import Plan
from calmstream.estimators.randomness import SeededRandomness
from calmstream.estimators.wire.dead_letter import DeadLetter
from calmstream.estimators.wire.snapshot import Kind
from calmstream.estimators.wire.state import (
    ClosedWindow,
    PartitionState,
    decode_closed,
    decode_state,
    parse_key,
)
from calmstream.producer.simulation.produce import ProduceSummary, produce
from tests.support.clock import ManualClock
from tests.support.faulty_broker import FaultyBroker
from tests.support.publisher import AWAIT_SECONDS, publisher_context
from tests.support.service.processes import until
from tests.support.tally import at, batch_id, body, fields_of, fold_one, names_of

DAY_MS = 86_400_000


class Inline:
    """Lanes that run every call at once, on the caller's thread."""

    def free(self) -> bool:
        return True

    def start(self, call: Callable[[], bool]) -> Future[bool]:
        return begin(call, lambda run: run())

    def busy(self) -> bool:
        return False


def worker_context(
    plan: Plan, clock: ManualClock, names: TopicNames | None = None, **settings: object
) -> TallyContext:
    """Return what the parts of a worker share; its registry is ``metrics.registry``."""
    names = names or names_of(plan)
    metrics = plan_metrics(CollectorRegistry(), plan, names, TALLY_METRICS)
    return TallyContext("tally", plan, names, clock, load(TallyConfig, **settings), metrics)


@dataclass
class Stage:
    """A broker with the plan's topics, and all roles on one manual clock.

    The clock starts half a second after the plan.
    """

    plan: Plan
    # settings of all workers that differ from those in `worker`
    settings: dict[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.clock = ManualClock(at(0.5))
        self.broker = FaultyBroker(self.clock.now_ms, seconds=self.clock.monotonic)
        self.names = names_of(self.plan)
        self.topics = self.broker.topics()
        self.topics.create(self.names.specs(7 * DAY_MS))
        self.sink = self.broker.sink()
        self.sent = 0

    def worker(self, clock: ManualClock | None = None, **settings: object) -> TallyWorker:
        """Return a started worker; its registry is ``worker.registry``."""
        given = {"poll_seconds": 0.0, "checkpoint_seconds": 0.5, "retry_seconds": 5.0}
        context = worker_context(
            self.plan, clock or self.clock, self.names, **(given | self.settings | settings)
        )
        worker = TallyWorker(context, self.broker)
        worker.registry = context.metrics.registry
        worker.start()
        return worker

    def publisher(self) -> Publisher:
        """Return a started publisher that writes an early revision every second."""
        config = PublisherConfig(poll_seconds=0, refresh_seconds=1, test_changes=False)
        context = publisher_context(self.plan, self.names, self.clock, config)
        estimates = EstimateRunner(wait_seconds=AWAIT_SECONDS, start_tests=lambda run: run())
        publisher = Publisher(context, self.broker, estimates)
        publisher.start(threading.Event())
        return publisher

    def ask(self, codes: NDArray[np.uint16], seed: int, **options: Any) -> ProduceSummary:
        """Let a population of devices report in the first window.

        `produce` makes and sends the reports, with a clock that begins a second after the plan.
        """
        randomness = SeededRandomness(seed)
        given = {"clock": ManualClock((self.plan.start + 1) * 1000), "windows": 1}
        return produce(
            self.plan, self.broker, self.names, codes, randomness=randomness, **(given | options)
        )

    def input(self, number: int = 0, group: int = 0) -> Partition:
        return Partition(self.names.reports(group), number)

    def send(
        self, key: bytes | None, value: bytes | None, *, partition: int = 0, group: int = 0
    ) -> int:
        """Append one record to a reports topic; return its offset."""
        topic = self.names.reports(group)
        return self.sink.send(topic, key, value, partition=partition).wait(1)

    def batch(
        self,
        period: int,
        cells: list[int],
        *,
        number: int | None = None,
        partition: int = 0,
        group: int = 0,
    ) -> int:
        """Send a valid batch, with a new id unless ``number`` gives one; return its offset."""
        self.sent += 1
        key = batch_id(10_000 + self.sent if number is None else number)
        return self.send(
            key, body(self.plan, period, cells, group), partition=partition, group=group
        )

    def move_to(self, seconds: float) -> None:
        self.clock.advance((at(seconds) - self.clock.wall_ms) / 1000)

    def turns(self, *workers: TallyWorker, count: int = 8, step: float = 0.2) -> None:
        """Take ``count`` turns of every worker; the clock advances ``step`` seconds after each.

        What a turn asks the broker for on another thread is answered before the clock advances.
        """
        for _ in range(count):
            for worker in workers:
                worker.turn()
            await_requests()
            self.clock.advance(step)

    def together(self, worker: TallyWorker, publisher: Publisher, count: int = 12) -> None:
        for _ in range(count):
            self.turns(worker, count=1)
            publisher.turn()

    def to_the_end(self, worker: TallyWorker, publisher: Publisher) -> None:
        def finished() -> bool:
            self.together(worker, publisher, 1)
            return publisher.finished

        until("everything is published", finished, 60)

    def finish(self, *kinds: Kind) -> list[Snapshot]:
        """Count and publish a plan of at most half a minute to its end; return the snapshots."""
        worker, publisher = self.worker(), self.publisher()
        for seconds in (5, 15, 40):
            self.move_to(seconds)
            self.together(worker, publisher, 40)
        self.to_the_end(worker, publisher)
        return self.snapshots(*kinds)

    # What the topics hold

    def snapshots(self, *kinds: Kind) -> list[Snapshot]:
        snapshots = subscribe(
            self.plan, self.broker, namespace="test", follow=False, poll_seconds=0,
            kinds=kinds or tuple(Kind),
        )  # fmt: skip
        return list(snapshots)

    def state_records(self, number: int = 0) -> list[Record]:
        return self.broker.records(Partition(self.names.state, number))

    def states(self, number: int = 0, group: int = 0) -> list[PartitionState]:
        return [
            decode_state(self.plan, group, r.value)
            for r in self.state_records(number)
            if r.value is not None and parse_key(r.key) == (group, number, None)
        ]

    def closed(self, number: int = 0, group: int = 0) -> list[ClosedWindow]:
        records = []
        for r in self.state_records(number):
            g, p, window = parse_key(r.key)
            if (g, p) == (group, number) and window is not None and r.value is not None:
                records.append(decode_closed(self.plan, group, r.value))
        return records

    def dead_letters(self) -> list[tuple[DeadLetter, Record]]:
        records = self.broker.records(Partition(self.names.dead_letters, 0))
        return [(DeadLetter.from_headers(r.headers, self.plan), r) for r in records]

    def recount(self, number: int = 0, group: int = 0) -> PartitionFold:
        partition = self.input(number, group)
        info = self.topics.describe([partition.topic])[partition.topic]
        fold = PartitionFold.start(self.plan, group, info.id)
        for r in self.broker.records(partition):
            fold_one(fold, r)
        return fold


def await_requests(seconds: float = 60.0) -> None:
    """Wait until no request that checks topics or log ends is under way.

    Workers and publishers make them on threads of their own, which need real time.
    """
    deadline = time.monotonic() + seconds
    for thread in threading.enumerate():
        if thread.name in {"topics", "ends"}:
            thread.join(max(deadline - time.monotonic(), 0.0))
            assert not thread.is_alive(), f"a request is under way for {seconds:g} s"


def sample(worker: TallyWorker, name: str, **labels: str) -> float:
    values = [
        s.value
        for family in worker.registry.collect()
        for s in family.samples
        if s.name == f"calmstream_{name}" and labels.items() <= s.labels.items()
    ]
    assert values, f"no sample {name} {labels}"
    return sum(values)


def assert_state_is_the_log(stage: Stage, number: int = 0, group: int = 0) -> None:
    """Assert that the newest partition record of an input equals a recount of its log."""
    fold = stage.recount(number, group)
    newest = max(stage.states(number, group), key=lambda s: s.next_offset)
    assert fields_of(newest) == fields_of(fold.state())
