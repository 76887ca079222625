"""Check what a worker does while one of two brokers hangs or is gone."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from kafka import KafkaAdminClient, KafkaConsumer, TopicPartition

from calmstream.broker.transport import Delivery, Partition
from calmstream.common.clock import SystemClock
from calmstream.consumer.runtime.read_topics import PatientReader
from calmstream.consumer.tally.restore import newest_states
from tests.brokers.native import NativeKafka
from tests.brokers.provide import or_skip
from tests.support.service.processes import until
from tests.support.service.running import Stage
from tests.support.tally import body

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

# The first window ends about 45 s after the start, after the halt and before the worker stops; the
# second ends long after the thaw, on a slow machine too.
AGE = 555
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
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, group_id="settle")
    consumer.committed(TopicPartition("none", 0), timeout_ms=30_000)
    consumer.close()


def lead(bootstrap: str, moved: Callable[[Partition], bool], node: int, rest: int) -> None:
    """Move partitions to a broker and all others, also the groups' topic, to the rest."""
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        wanted = {partition: node if moved(partition) else rest for partition in led(admin)}
        admin.alter_partition_reassignments({TopicPartition(*p): [n] for p, n in wanted.items()})
        until("every partition has its leader", lambda: led(admin) == wanted, 60)
    finally:
        admin.close()


def led(admin: KafkaAdminClient) -> dict[Partition, int]:
    return {
        Partition(topic["name"], one["partition_index"]): one["leader_id"]
        for topic in admin.describe_topics()
        for one in topic["partitions"]
    }


def stored_counts(stage: Stage) -> list[int]:
    """Return the counts of each cell in the newest partition records."""
    reading = PatientReader(stage.broker.reader(), stage.topics, SystemClock())
    states = newest_states(stage.plan, stage.names, stage.names.inputs, reading).values()
    counts = [count for state in states for count in (state.total, *state.open.values())]
    return np.sum([count.tally.counts[0] for count in counts], axis=0).tolist()


@pytest.mark.timeout(600)
def test_a_stalled_partition_holds_up_its_windows_and_nothing_else(
    pair: tuple[NativeKafka, NativeKafka],
) -> None:
    first, second = pair
    limits = {"request_seconds": 4.0, "delivery_seconds": 200.0}
    stage = Stage(first.bootstrap, 1, 2, limits, windows=2, window=600, grace=1, age=AGE)
    other, alone = stage.inputs()
    lead(first.bootstrap, lambda p: p == alone, second.node, first.node)
    running = stage.worker(stall_seconds=90.0)

    sent: Counter[int] = Counter()

    def send(where: Partition, period: int, count: int) -> list[Delivery]:
        sent.update(number % 4 for number in range(count))
        return [
            stage.sink.send(
                where.topic,
                secrets.token_bytes(16),
                body(stage.plan, period, [number % 4]),
                partition=where.number,
            )
            for number in range(count)
        ]

    def accepted(count: int) -> None:
        until(f"{count} accepted", lambda: stage.accepted() == count, 60)

    def closed(where: Partition) -> int:
        return int(running.worker.folds[where].admission.closed_through)

    def live() -> str:
        verdict = running.worker.health.live()
        return "" if verdict.well else verdict.detail

    try:
        for delivery in send(other, 0, 30) + send(alone, 0, 20):
            delivery.wait(60)
        accepted(50)
        second.freeze()
        # The other partition is tallied as before, and closes its window in time.
        for delivery in send(other, 0, 25):
            delivery.wait(60)
        accepted(75)
        sent_to_stalled = send(alone, 1, 40)
        until("the other closed", lambda: closed(other) == 0, 120)
        assert not any(delivery.done() for delivery in sent_to_stalled)
        # The stall is reported by name; the window stays open, because its counts are incomplete.
        until("the stall is reported", lambda: live() == f"{alone} stands still", 120)
        assert closed(alone) == -1
        assert running.thread.is_alive(), running.failures
        second.thaw()
        for delivery in sent_to_stalled:
            delivery.wait(60)
        accepted(115)
        until("well again", lambda: not live(), 60)
        until("it closed too", lambda: closed(alone) == 0, 60)
        running.end()
        assert stored_counts(stage) == [sent[cell] for cell in range(4)]
    finally:
        second.thaw()
        stage.close()


@pytest.mark.timeout(600)
def test_a_worker_whose_coordinator_is_gone_says_so_while_other_brokers_answer(
    pair: tuple[NativeKafka, NativeKafka],
) -> None:
    first, second = pair
    stage = Stage(first.bootstrap, limits={"request_seconds": 4.0})
    try:
        lead(first.bootstrap, lambda p: p.topic == OFFSETS_TOPIC, second.node, first.node)
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
