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

from calmstream.broker.kafka import connect
from calmstream.broker.kafka.broker import KafkaBroker
from calmstream.broker.names import TopicNames
from calmstream.broker.transport import Partition, Record
from calmstream.common.clock import SystemClock
from calmstream.common.settings import load
from calmstream.consumer.metrics.registry import plan_metrics
from calmstream.consumer.metrics.tally import TALLY_METRICS
from calmstream.consumer.runtime.config import TallyConfig
from calmstream.consumer.runtime.worker import Alone
from calmstream.consumer.tally.folding.fold import PartitionFold
from calmstream.consumer.tally.worker import TallyWorker
from calmstream.estimators.plan import Plan
from calmstream.estimators.wire.dead_letter import DeadLetter
from calmstream.estimators.wire.state import (
    PartitionState,
    decode_closed,
    decode_state,
    encode_closed,
    encode_state,
    parse_key,
)
from tests.brokers.segments import Stored
from tests.support.service.admission_recount import Recount
from tests.support.service.running import until
from tests.support.tally import body, fold_one, names_of, small_plan

pytestmark = pytest.mark.kafka

HOUR_MS = 3_600_000
SESSION_SECONDS = 20.0
SECONDS = 60.0


@dataclass
class Running:
    """A worker in a thread."""

    worker: TallyWorker
    stop: threading.Event
    thread: threading.Thread
    failures: list[BaseException]

    def end(self, seconds: float = SECONDS) -> None:
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
        load(
            TallyConfig, checkpoint_seconds=0.5, poll_seconds=0.1, session_seconds=SESSION_SECONDS
        ),
        plan_metrics(CollectorRegistry(), plan, names, TALLY_METRICS),
    )
    stop, failures = threading.Event(), []

    def live() -> None:
        try:
            Alone(worker).run(stop)
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
    records, deadline = [], time.monotonic() + SECONDS
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


class Sender:
    """Sends every batch twice to both groups, and now and then a bad record.

    Attributes:
        sent: number of batches so far, each sent to both groups.
    """

    def __init__(self, plan: Plan, broker: KafkaBroker, names: TopicNames) -> None:
        self.sent = 0
        self._plan = plan
        self._names = names
        self._sink = broker.sink()

    def window(self) -> int:
        """Return the present window."""
        return self._plan.window_at(int(time.time() * 1000))

    def until(self, what: str, happened: Callable[[], bool]) -> None:
        """Send until something has happened, and at least one batch."""
        deadline = time.monotonic() + SECONDS
        while True:
            self._send()
            if happened():
                return
            assert time.monotonic() < deadline, f"not within {SECONDS:g} s: {what}"
            time.sleep(0.02)

    def _send(self) -> None:
        key, period = secrets.token_bytes(16), self.window()
        for group in range(2):
            value = body(self._plan, period, [self.sent % 4, 1], group)
            for _ in range(2):
                self._sink.send(self._names.reports(group), key, value).wait(SECONDS)
        self.sent += 1
        if self.sent % 10 == 0:
            bad = self._sink.send(self._names.reports(0), secrets.token_bytes(16), b"{")
            bad.wait(SECONDS)


def test_two_workers_in_turn_count_every_batch_once(kafka_bootstrap: str) -> None:
    plan = small_plan(
        windows=100, window=4, grace=1, skew=2, partitions=2, groups=2, start=int(time.time())
    )
    names = names_of(plan, f"tally-{secrets.token_hex(4)}")
    broker = connect(kafka_bootstrap, session_seconds=SESSION_SECONDS)
    broker.topics().create(names.specs(HOUR_MS))
    sender, first = Sender(plan, broker, names), run(plan, broker, names)
    sender.until("the first has all", lambda: len(first.worker.folds) == 4)
    second = run(plan, broker, names)
    sender.until("they share", lambda: len(second.worker.folds) == 2)
    first.end()
    sender.until("the second has all", lambda: len(second.worker.folds) == 4)
    began = sender.window()
    sender.until("a window ended", lambda: sender.window() > began)
    last = sender.window()

    def closed() -> bool:
        states = newest(plan, broker, names)
        return len(states) == 4 and all(s.closed_through >= last for s in states.values())

    until("all reports are in closed windows", closed, SECONDS)
    second.end()
    check(plan, broker, names, sender.sent)
    broker.close()


def check(plan: Plan, broker: KafkaBroker, names: TopicNames, sent: int) -> None:
    """Compare state, closed windows and dead letters with two recounts of the log.

    One is the product's own, the other shares no code with it. Records behind the state, such as
    the last tick, are left out.
    """
    infos = broker.topics().describe(names.all_reports)
    states, closed, expected = newest(plan, broker, names), {}, {}
    rejected, keys = set(), 0
    for (group, number), state in states.items():
        topic = names.reports(group)
        log = [
            record
            for record in read_all(broker, Partition(topic, number))
            if record.offset < state.next_offset
        ]
        fold = PartitionFold.start(plan, group, infos[topic].id)
        for record in log:
            outcome = fold_one(fold, record)
            for window in outcome.closed:
                expected[group, number, window.window] = encode_closed(plan, window)
            if outcome.rejection is not None:
                rejected.add((topic, number, record.offset, outcome.rejection.reason))
        assert encode_state(plan, state) == encode_state(plan, fold.state())
        recount = Recount(plan, group).read(
            Stored(r.offset, r.timestamp, r.append_time, r.key, r.value) for r in log
        )
        counted = recount.through(state.closed_through).cells
        assert state.total.tally.counts.tolist() == [[counted[cell] for cell in range(4)]]
        keys += sum(recount.keys.values())
    for number in range(plan.partitions):
        for record in read_all(broker, Partition(names.state, number)):
            where = parse_key(record.key or b"")
            if where[2] is not None:
                window = decode_closed(plan, where[0], record.value or b"")
                closed[where] = encode_closed(plan, window)
    assert closed == expected
    assert keys == 2 * 2 * sent, "every batch is counted once, or late on a slow machine"
    letters = [
        DeadLetter.from_headers(r.headers, plan)
        for r in read_all(broker, Partition(names.dead_letters, 0))
    ]
    assert {(d.topic, d.partition, d.offset, d.reason) for d in letters} == rejected
    assert len(rejected) >= 2 * sent
