"""Check tally workers on real Kafka: they join, hand partitions over, send ticks and stop.

The counts are compared with a recount of the log.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from prometheus_client import CollectorRegistry

from broker.clock import SystemClock
from broker.kafka import connect
from broker.kafka.broker import KafkaBroker
from broker.names import TopicNames
from broker.settings import load
from broker.transport import Partition, Record
from consumer.metrics.registry import tally_metrics
from consumer.runtime.config import TallyConfig
from consumer.tally.folding.fold import PartitionFold
from consumer.tally.worker import TallyWorker
from estimators.plan import Plan
from estimators.wire.dead_letter import DeadLetter
from estimators.wire.state import (
    PartitionState,
    decode_closed,
    decode_state,
    encode_closed,
    encode_state,
    parse_key,
)
from tests.support.tally import body, names_of, small_plan

pytestmark = pytest.mark.kafka

HOUR_MS = 3_600_000


@dataclass
class Running:
    """A worker in a thread."""

    worker: TallyWorker
    stop: threading.Event
    thread: threading.Thread
    failures: list[BaseException]

    def end(self, seconds: float = 25.0) -> None:
        self.stop.set()
        self.thread.join(seconds)
        assert not self.thread.is_alive()
        assert not self.failures


def run(plan: Plan, broker: KafkaBroker, names: TopicNames) -> Running:
    worker = TallyWorker(
        plan,
        broker,
        names,
        SystemClock(),
        load(TallyConfig, checkpoint_seconds=0.5, poll_seconds=0.1),
        tally_metrics(CollectorRegistry(), plan, names),
    )
    stop, failures = threading.Event(), []

    def live() -> None:
        try:
            worker.run(stop)
        except BaseException as error:  # noqa: BLE001 - asserted on by the test
            failures.append(error)

    thread = threading.Thread(target=live)
    thread.start()
    return Running(worker, stop, thread, failures)


def read_all(broker: KafkaBroker, partition: Partition) -> list[Record]:
    topics, reader = broker.topics(), broker.reader()
    end = topics.log_ends([partition])[partition]
    reader.assign([partition])
    reader.seek(partition, topics.log_starts([partition])[partition])
    records, deadline = [], time.monotonic() + 20
    while reader.position(partition) < end:
        assert time.monotonic() < deadline
        records += reader.poll(0.5)
    reader.close()
    return records


def newest(
    plan: Plan, broker: KafkaBroker, names: TopicNames
) -> dict[tuple[int, int], PartitionState]:
    states: dict[tuple[int, int], PartitionState] = {}
    for number in range(plan.partitions):
        for record in read_all(broker, Partition(names.state, number)):
            group, partition, window = parse_key(record.key or b"")
            if window is None:
                state = decode_state(plan, group, record.value or b"")
                previous = states.get((group, partition))
                if previous is None or state.next_offset > previous.next_offset:
                    states[group, partition] = state
    return states


def until(happened: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.2)


def test_two_workers_in_turn_count_every_batch_once(kafka_bootstrap: str) -> None:
    started = int(time.time())
    plan = small_plan(windows=2, window=4, grace=1, skew=2, partitions=2, groups=2, start=started)
    names = names_of(plan, f"tally-{secrets.token_hex(4)}")
    broker = connect(kafka_bootstrap, session_seconds=6.0)
    topics, sink = broker.topics(), broker.sink()
    topics.create(names.specs(HOUR_MS))
    first, sent, second = run(plan, broker, names), 0, None
    while time.time() < started + 7.5:
        period = int(time.time() - started) // 4
        key = secrets.token_bytes(16)
        for group in range(2):
            for _ in range(2):  # every batch comes twice
                value = body(plan, period, [sent % 4, 1], group)
                sink.send(names.reports(group), key, value).wait(10)
        sent += 1
        if sent % 10 == 0:
            sink.send(names.reports(0), secrets.token_bytes(16), b"{").wait(10)
        if second is None and time.time() > started + 2.5:
            second = run(plan, broker, names)
        if first.thread.is_alive() and time.time() > started + 5:
            first.end()
        time.sleep(0.02)
    assert second is not None

    def finished() -> bool:
        states = newest(plan, broker, names)
        return len(states) == 4 and all(s.closed_through == 1 for s in states.values())

    until(finished, 40)
    second.end()
    check(plan, broker, names, sent)
    broker.close()


def check(plan: Plan, broker: KafkaBroker, names: TopicNames, sent: int) -> None:
    infos = broker.topics().describe(names.all_reports)
    states, closed, expected = newest(plan, broker, names), {}, {}
    rejected = set()
    for group, topic in enumerate(names.all_reports):
        for number in range(plan.partitions):
            fold = PartitionFold.start(plan, group, infos[topic].id)
            for record in read_all(broker, Partition(topic, number)):
                outcome = fold.fold(record)
                for window in outcome.closed:
                    expected[group, number, window.window] = encode_closed(plan, window)
                if outcome.rejection is not None:
                    rejected.add((topic, number, record.offset, outcome.rejection.reason))
            assert encode_state(plan, states[group, number]) == encode_state(plan, fold.state())
    for number in range(plan.partitions):
        for record in read_all(broker, Partition(names.state, number)):
            where = parse_key(record.key or b"")
            if where[2] is not None:
                window = decode_closed(plan, where[0], record.value or b"")
                closed[where] = encode_closed(plan, window)
    assert closed == expected
    assert sum(s.total.tally.reports for s in states.values()) == 2 * 2 * sent
    letters = [
        DeadLetter.from_headers(r.headers)
        for r in read_all(broker, Partition(names.dead_letters, 0))
    ]
    assert {(d.topic, d.partition, d.offset, d.reason) for d in letters} == rejected
    assert len(rejected) >= 2 * sent
