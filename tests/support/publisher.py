"""Help for the tests of the publisher: the state that workers would have written, and a bench.

`SlotLog` is one input partition as a short list of events; from it come the records of the state
topic. `Bench` has the broker, the logs of all partitions, and publishers.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from prometheus_client import CollectorRegistry

from calmstream.broker.names import TopicNames
from calmstream.broker.transport import Partition
from calmstream.common.clock import Clock
from calmstream.common.errors import Reason
from calmstream.consumer.metrics.publisher import PUBLISHER_METRICS
from calmstream.consumer.metrics.registry import plan_metrics
from calmstream.consumer.publish.build import build_set
from calmstream.consumer.publish.config import PublisherConfig, PublisherContext
from calmstream.consumer.publish.estimate_runner import EstimateRunner
from calmstream.consumer.publish.merge import MergedWindow
from calmstream.consumer.publish.publisher import Publisher
from calmstream.consumer.publish.session import PublishingSession
from calmstream.consumer.subscribe.assembler import Snapshot, SnapshotAssembler
from calmstream.estimators.domain import Domain
from calmstream.estimators.mechanisms.registry import standard
from calmstream.estimators.plan import Group, Plan
from calmstream.estimators.tally import Tally
from calmstream.estimators.view import View
from calmstream.estimators.wire.snapshot import Kind, parse_key
from calmstream.estimators.wire.state import (
    ClosedWindow,
    PartitionState,
    WindowCount,
    closed_key,
    encode_closed,
    encode_state,
    partition_key,
)
from tests.support.clock import ManualClock
from tests.support.faulty_broker import FaultyBroker
from tests.support.plans import pair_plan
from tests.support.tally import names_of

START = 1_700_000_000
DAY_MS = 86_400_000


def published_plan(
    *,
    name: str = "publish-test",
    start: int = START,
    window: int = 10,
    windows: int = 3,
    groups: int = 2,
    **changes: Any,
) -> Plan:
    """Return a plan over three binary attributes; ``changes`` replace other fields.

    Group g reports a pair of attributes by GRR. The tables of attribute 0 and of attributes 0 and 1
    are published.
    """
    pairs = ((0, 1), (1, 2), (0, 2))
    made = (Group(standard("grr", "1", 4), (View(pairs[g % 3]),), (1,)) for g in range(groups))
    own = {"domain": Domain.binary(3), "groups": tuple(made), "marginals": ((0,), (0, 1))}
    return pair_plan(name, start, window, windows, **{**own, "partitions": 2, **changes})


AWAIT_SECONDS = 60.0  # for an estimate on another thread: on a busy machine, too


def count_of(cells: list[int], rejects: int = 0) -> WindowCount:
    """Return the counts of a window in which these cells (0 to 3) of one view were reported."""
    counts = np.bincount(np.array(cells, np.int64), minlength=4).reshape(1, 4)
    tally = Tally(np.array([len(cells)]), counts.astype(np.int64))
    return WindowCount(tally, {Reason.LATE: rejects} if rejects else {})


def snapshot_of(
    plan: Plan, window: int, kind: Kind, revision: tuple[int, ...], *counts: WindowCount
) -> Snapshot:
    """Return the set of a window with these counts, as a subscriber receives it."""
    built = build_set(plan, MergedWindow(window, kind, revision, counts))
    return Snapshot(built.manifest, {record.attributes: record for record in built.marginals})


def publisher_context(
    plan: Plan, names: TopicNames, clock: Clock, config: PublisherConfig
) -> PublisherContext:
    """Return what the parts of a publisher share; its registry is ``metrics.registry``."""
    metrics = plan_metrics(CollectorRegistry(), plan, names, PUBLISHER_METRICS)
    return PublisherContext("publisher", plan, names, clock, config, metrics)


@dataclass
class SlotLog:
    """One input partition (a *slot*) as a list of events, and the state that a worker writes.

    The index of an event is the offset of its record. All answers are computed from the list.
    """

    plan: Plan
    group: int = 0  # index of the group whose reports the partition has
    partition: int = 0  # number of the partition in the group's reports topic
    # a pair (window, cell) is a report; a number w is a record that closes window w
    events: list[tuple[int, int] | int] = field(default_factory=list)

    @property
    def slot(self) -> int:
        """The position of this partition in a vector, the list of offsets of all partitions."""
        return self.group * self.plan.partitions + self.partition

    def report(self, window: int, *cells: int) -> SlotLog:
        self.events += [(window, cell) for cell in cells]
        return self

    def close(self, window: int) -> SlotLog:
        self.events.append(window)
        return self

    def cells(self, below: int, window: int) -> list[int]:
        events = self.events[:below]
        return [e[1] for e in events if not isinstance(e, int) and e[0] == window]

    def through(self, below: int, window: int) -> list[int]:
        """Return the cells reported below an offset for all windows up to ``window``."""
        return [cell for w in range(window + 1) for cell in self.cells(below, w)]

    def closed_at(self, window: int) -> int | None:
        return self.events.index(window) if window in self.events else None

    def state(self, below: int | None = None) -> tuple[bytes, bytes]:
        """Return key and value of the partition record at an offset (by default the end)."""
        below = len(self.events) if below is None else below
        closed = [e for e in self.events[:below] if isinstance(e, int)]
        through = max(closed, default=-1)
        counted_ids = {e[0] for e in self.events[:below] if not isinstance(e, int)}
        state = PartitionState(
            topic_id="topic",
            next_offset=below,
            clock=0,
            closed_through=through,
            resume_from=0,
            resume_clock=0,
            total=count_of(self.through(below, through)),
            open={w: count_of(self.cells(below, w)) for w in counted_ids if w > through},
        )
        return partition_key(self.group, self.partition), encode_state(self.plan, state)

    def closed(self, window: int) -> tuple[bytes, bytes]:
        at = self.closed_at(window)
        assert at is not None
        record = ClosedWindow(
            window=window,
            closed_at=at,
            count=count_of(self.cells(at, window), rejects=1),
            total=count_of(self.through(at, window), rejects=window + 1),
        )
        key = closed_key(self.group, self.partition, window)
        return key, encode_closed(self.plan, record)

    def closed_windows(self) -> list[int]:
        return [e for e in self.events if isinstance(e, int)]


def slot_logs(plan: Plan) -> list[SlotLog]:
    return [
        SlotLog(plan, group, partition)
        for group in range(len(plan.groups))
        for partition in range(plan.partitions)
    ]


def histogram(cells: list[int]) -> list[int]:
    counted = Counter(cells)
    return [counted[cell] for cell in range(4)]


class Bench:
    """An in-process broker with a plan's topics, on which tests write state and run publishers.

    A bench ``beside`` another one uses its broker and clock.

    Attributes:
        start_tests: where the publishers' tests of change run: at once, on the caller's thread.
    """

    def __init__(self, plan: Plan, beside: Bench | None = None, **config: float) -> None:
        self.plan = plan
        self.names = names_of(plan)
        self.clock = ManualClock(START * 1000) if beside is None else beside.clock
        self.broker = (
            FaultyBroker(self.clock.now_ms, seconds=self.clock.monotonic)
            if beside is None
            else beside.broker
        )
        self.topics = self.broker.topics()
        self.topics.create(self.names.specs(DAY_MS))
        self.sink = self.broker.sink()
        self.config = PublisherConfig(
            **{
                "poll_seconds": 0,
                "send_seconds": 5,
                "test_changes": False,
                "track": False,
                **config,
            }
        )
        self.registry = CollectorRegistry()
        self.logs = slot_logs(plan)
        self.start_tests: Callable[[Callable[[], None]], None] = lambda run: run()

    def put(self, log: SlotLog, record: tuple[bytes, bytes | None]) -> None:
        self.sink.send(self.names.state, *record, partition=log.partition).wait(5)

    def put_all(self) -> None:
        """Write all closed records, then all partition records, as finished workers do."""
        for log in self.logs:
            for window in log.closed_windows():
                self.put(log, log.closed(window))
            self.put(log, log.state())

    def close_all(self, windows: int = 3) -> None:
        """Add 51 reports to every window of every log, and close it; write nothing to a topic."""
        for log in self.logs:
            for window in range(windows):
                log.report(window, *([log.slot % 4] * 50), window % 4).close(window)

    def fill_inputs(self) -> None:
        """Write as many records to every input partition as its log has events."""
        for log in self.logs:
            for _ in log.events:
                topic = self.names.reports(log.group)
                self.sink.send(topic, None, b"{}", partition=log.partition).wait(5)

    def trim_inputs(self) -> None:
        """Delete all input, as retention does."""
        inputs = [Partition(self.names.reports(x.group), x.partition) for x in self.logs]
        self.topics.trim(self.topics.log_ends(inputs))

    def publisher(self, *, started: bool = True) -> Publisher:
        """Return a publisher that takes part in the group of publishers."""
        publisher = Publisher(self.context(), self.broker, self._estimates())
        if started:
            publisher.start(threading.Event())
        return publisher

    def publication(self, broker: FaultyBroker | None = None) -> PublishingSession:
        """Return a publishing session without group membership; it is always active."""
        return PublishingSession(self.context(), broker or self.broker, self._estimates())

    def context(self) -> PublisherContext:
        return publisher_context(self.plan, self.names, self.clock, self.config)

    def _estimates(self) -> EstimateRunner:
        return EstimateRunner(start_tests=self.start_tests, wait_seconds=AWAIT_SECONDS)

    def snapshot_records(self) -> list[tuple[bytes, bytes | None]]:
        records = self.broker.records(Partition(self.names.snapshots, 0))
        return [(record.key or b"", record.value) for record in records]

    def set_records(self, window: int, kind: Kind) -> list[int]:
        return [
            offset
            for offset, (key, value) in enumerate(self.snapshot_records())
            if parse_key(key)[:2] == (window, kind) and value is not None
        ]

    def state_keys(self) -> set[bytes]:
        """Return the keys of the state topic whose last record is no tombstone."""
        last: dict[bytes, bytes | None] = {}
        for number in range(self.plan.partitions):
            for record in self.broker.records(Partition(self.names.state, number)):
                last[record.key or b""] = record.value
        return {key for key, value in last.items() if value is not None}

    def shown(self) -> list[Snapshot]:
        return shown(self.plan, self.snapshot_records())

    def kinds(self) -> list[tuple[int, Kind]]:
        return [(snapshot.window, snapshot.kind) for snapshot in self.shown()]


def shown(plan: Plan, records: list[tuple[bytes, bytes | None]]) -> list[Snapshot]:
    """Return the snapshots that a subscriber receives if it reads these records in order."""
    assembler = SnapshotAssembler(plan)
    snapshots = [assembler.read(key, value) for key, value in records]
    return [snapshot for snapshot in snapshots if snapshot is not None]


def work(publisher: Publisher | PublishingSession, turns: int = 60) -> None:
    """Take so many turns that no work is left."""
    for _ in range(turns):
        if isinstance(publisher, Publisher):
            publisher.turn()
        else:
            publisher.step(0.0)


def steps(publication: PublishingSession, until: Callable[[], bool]) -> None:
    for _ in range(1000):
        if until():
            return
        publication.step(0.0)
    raise AssertionError("not within a thousand steps")


def dying(bench: Bench, at: int, *, before: bool) -> PublishingSession:
    """Return a session whose process ends before or after its write number ``at``."""
    session, writes = bench.publication(), 0
    send = session._sink.send

    def sending(*args: object, **more: object) -> object:
        nonlocal writes
        writes += 1
        if before and writes > at:
            raise SystemExit
        made = send(*args, **more)  # type: ignore[arg-type]
        if writes > at:
            raise SystemExit
        return made

    session._sink.send = sending  # type: ignore[method-assign,assignment]
    return session
