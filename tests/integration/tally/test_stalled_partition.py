"""Check what a worker does while one of two brokers hangs or is gone."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, TopicPartition
from prometheus_client import CollectorRegistry

from calmstream.broker.transport import Delivery, Partition
from calmstream.common.clock import SystemClock
from calmstream.consumer.metrics.publisher import PUBLISHER_METRICS
from calmstream.consumer.metrics.registry import plan_metrics
from calmstream.consumer.publish.config import PublisherConfig
from calmstream.consumer.publish.publisher import Publisher
from calmstream.consumer.runtime.worker import Alone
from calmstream.consumer.subscribe.subscribe import subscribe
from calmstream.estimators.wire.snapshot import Kind
from tests.brokers.native import NativeKafka
from tests.brokers.provide import or_skip
from tests.support.service.recount import recount_grr, stored_counts
from tests.support.service.running import Stage, until
from tests.support.tally import body

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

# The first window ends about 45 s after the start, after the halt and before the worker stops; the
# second ends long after the thaw, on a slow machine too.
WINDOW, GRACE, AGE = 600, 1, 555
STALL_SECONDS = 90.0
OFFSETS_TOPIC = "__consumer_offsets"


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[NativeKafka, NativeKafka]]:
    """Start two brokers of one cluster; the offsets topic is on the first."""
    first = NativeKafka(tmp_path / "first")
    second = NativeKafka(tmp_path / "second", joins=first)
    with or_skip():
        first.start()
        settle_groups(first.bootstrap)
        second.start()
    yield first, second
    second.close()
    first.close()


def settle_groups(bootstrap: str) -> None:
    """Let the first broker make the offsets topic, while it is alone."""
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, group_id="settle")
    consumer.committed(TopicPartition("none", 0), timeout_ms=30_000)
    consumer.close()


def lead(bootstrap: str, leaders: dict[Partition, int], everything_else: int) -> None:
    """Move partitions to their brokers, and wait until these lead, and another all the rest.

    The rest includes the consumer groups' own topic: where the broker of a worker's group hangs,
    or that of its state, nothing can go on.
    """
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        wanted = dict.fromkeys(led(admin), everything_else) | leaders
        admin.alter_partition_reassignments({TopicPartition(*p): [n] for p, n in wanted.items()})
        until("every partition has its leader", lambda: led(admin) == wanted, 60)
    finally:
        admin.close()


def led_by(bootstrap: str) -> dict[Partition, int]:
    """Return the leader of every partition, by a client of its own."""
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        return led(admin)
    finally:
        admin.close()


def led(admin: KafkaAdminClient) -> dict[Partition, int]:
    """Return the leader of every partition."""
    return {
        Partition(topic["name"], one["partition_index"]): one["leader_id"]
        for topic in admin.describe_topics()
        for one in topic["partitions"]
    }


class Scene:
    """A worker and a publisher, and two partitions with a broker each."""

    def __init__(self, first: NativeKafka, second: NativeKafka) -> None:
        self.stage = Stage(
            first.bootstrap,
            partitions=2,
            limits={"request_seconds": 4.0, "delivery_seconds": 200.0},
            windows=2,
            window=WINDOW,
            grace=GRACE,
            age=AGE,
        )
        names = self.stage.names
        self.alone, self.other = self.stage.inputs()[1], self.stage.inputs()[0]
        lead(first.bootstrap, {self.alone: second.node}, everything_else=first.node)
        self.bootstrap = first.bootstrap
        self.running = self.stage.worker(stall_seconds=STALL_SECONDS)
        self.registry = CollectorRegistry()
        self.stop = threading.Event()
        self.publisher = Publisher(
            self.stage.plan,
            self.stage.connect(),
            names,
            clock=SystemClock(),
            config=PublisherConfig(refresh_seconds=1.0),
            metrics=plan_metrics(self.registry, self.stage.plan, names, PUBLISHER_METRICS),
        )
        publishing = Alone(self.publisher)
        self.thread = threading.Thread(target=publishing.run, args=(self.stop,), daemon=True)
        self.thread.start()

    def send(self, where: Partition, period: int, count: int) -> list[Delivery]:
        self.stage.sent += count
        return [
            self.stage.sink.send(
                where.topic,
                secrets.token_bytes(16),
                body(self.stage.plan, period, [number % 4], 0),
                partition=where.number,
            )
            for number in range(count)
        ]

    def closed_windows(self, where: Partition) -> float:
        labels = {"topic": where.topic, "partition": str(where.number)}
        samples = [
            sample
            for family in self.running.registry.collect()
            for sample in family.samples
            if sample.name == "calmstream_partition_windows_closed"
        ]
        return sum(s.value for s in samples if labels.items() <= s.labels.items())

    def final_windows(self) -> float:
        samples = [s for f in self.registry.collect() for s in f.samples]
        return sum(s.value for s in samples if s.name == "calmstream_windows_final")

    def live(self) -> str:
        verdict = self.running.worker.health.live()
        return "" if verdict.well else verdict.detail

    def accepted(self, count: int) -> None:
        until(f"{count} accepted", lambda: self.stage.accepted() == count, 60)

    def close(self) -> None:
        self.stop.set()
        self.thread.join(60)
        self.stage.close()


@pytest.mark.timeout(600)
def test_a_stalled_partition_holds_up_its_windows_and_nothing_else(
    pair: tuple[NativeKafka, NativeKafka],
) -> None:
    first, second = pair
    scene = Scene(first, second)
    try:
        for delivery in scene.send(scene.other, 0, 30) + scene.send(scene.alone, 0, 20):
            delivery.wait(60)
        scene.accepted(50)
        second.freeze()
        frozen = time.monotonic()

        # The other partition is tallied as before, and closes its window in time.
        for delivery in scene.send(scene.other, 0, 25):
            delivery.wait(60)
        scene.accepted(75)
        sent_to_stalled = scene.send(scene.alone, 1, 40)
        until("the other closed", lambda: scene.closed_windows(scene.other) >= 1, 120)
        late = time.time() - (scene.stage.plan.start + WINDOW + GRACE)
        assert not any(delivery.done() for delivery in sent_to_stalled)

        # The stall is reported by name; the window stays open, because its counts are incomplete.
        until("the stall is reported", lambda: scene.live() == f"{scene.alone} stands still", 120)
        assert scene.closed_windows(scene.alone) == 0
        assert scene.final_windows() == 0
        assert scene.running.thread.is_alive(), scene.running.failures
        reported = time.monotonic() - frozen
        print(f"closed {late:.1f} s after its grace; reported after {reported:.1f} s")  # noqa: T201 - for -s

        second.thaw()
        for delivery in sent_to_stalled:
            delivery.wait(60)
        scene.accepted(115)
        until("well again", lambda: not scene.live(), 60)
        until("the final", lambda: scene.final_windows() >= 1, 60)
        exact(scene)
    finally:
        second.thaw()
        scene.close()


def exact(scene: Scene) -> None:
    """Check that the first final has its 75 reports, and that every cell equals a recount."""
    stage = scene.stage
    snapshots = subscribe(
        stage.plan,
        stage.broker,
        kinds=(Kind.FINAL,),
        follow=False,
        namespace=stage.names.namespace,
    )
    assert [(s.window, s.manifest.reports) for s in snapshots] == [(0, 75)]
    scene.running.end()
    expected = recount_grr(scene.bootstrap, list(stage.names.all_reports))
    stored, _ = stored_counts(scene.bootstrap, stage.names.state)
    assert sum(expected.values()) == 115
    assert stored == expected


@pytest.mark.timeout(600)
def test_a_worker_whose_coordinator_is_gone_says_so_while_other_brokers_answer(
    pair: tuple[NativeKafka, NativeKafka],
) -> None:
    first, second = pair
    stage = Stage(first.bootstrap, limits={"request_seconds": 4.0})
    try:
        offsets = {p: second.node for p in led_by(first.bootstrap) if p.topic == OFFSETS_TOPIC}
        lead(first.bootstrap, offsets, everything_else=first.node)
        running = stage.worker(stall_seconds=500.0)
        health = running.worker.health
        stage.send(20)
        until("counted", lambda: stage.accepted() == 20, 60)
        until("ready", lambda: health.readiness().well, 60)

        second.kill()
        stage.send(10)
        said = "outside its consumer group"
        seconds = until("it is said", lambda: said in health.readiness().detail, 120)
        print(f"said after {seconds:.1f} s")  # noqa: T201 - for -s
        assert health.silent_seconds == 0, "the other broker answers"
        assert stage.accepted() in (20, 30)

        second.start()
        until("ready again", lambda: health.readiness().well, 120)
        until("counted", lambda: stage.accepted() == 30, 60)
        running.end()
    finally:
        stage.close()
