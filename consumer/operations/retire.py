"""Ends a plan: refuses reports, waits for the last finals, deletes all topics but the results."""

from __future__ import annotations

import threading
from contextlib import closing

import structlog

from calmstream.broker.names import TopicNames
from calmstream.broker.transport import Broker, Partition, Record, Topics
from calmstream.common.clock import Clock
from calmstream.common.errors import FatalError, RecoverableError
from calmstream.consumer.publish.completeness import Completeness
from calmstream.consumer.runtime.foreign_records import ForeignRecordCounter, key_of
from calmstream.consumer.runtime.health import RoleHealth
from calmstream.consumer.runtime.read_topics import TopicReader
from calmstream.consumer.subscribe.assembler import SnapshotAssembler
from calmstream.estimators.plan import Plan
from calmstream.estimators.wire.changes import decode_changes, is_changes_key
from calmstream.estimators.wire.snapshot import Kind

TICK_ONLY_BYTES = 96
"""Maximum size of a message while a plan is retired. A tick (a record without reports that advances
the time of a log) has 89 bytes with its batch header; the smallest report has 111 bytes."""

# Maximum time of one poll.
_POLL_SECONDS = 0.5
# Additional time for estimating and publishing the last windows.
_SLACK_SECONDS = 120.0


def stop_admission(topics: Topics, names: TopicNames) -> None:
    """Make the reports topics refuse every report. Ticks still fit, so that windows can close."""
    topics.alter(names.all_reports, {"max.message.bytes": str(TICK_ONLY_BYTES)})


def last_window(plan: Plan, now_ms: int) -> int:
    """Return the number of the last window that can have reports now; -1 before the start."""
    return max(-1, min(plan.window_at(now_ms + plan.skew * 1000), plan.windows - 1))


def delete_topics(topics: Topics, names: TopicNames, *, counts: bool = False) -> list[str]:
    """Delete the topics of reports, state and dead letters; return their names. Snapshots stay."""
    topics_to_delete = [*names.all_reports, names.state, names.dead_letters]
    topics_to_delete += [names.counts] if counts else []
    existing = sorted(topics.describe(topics_to_delete))
    topics.delete(existing)
    return existing


class FinalsWaiter:
    """A role that ends when every window up to a given one has a complete final and total.

    A final is complete with its counts. The role runs in the same
    process as a tally worker and a publisher, and waits for their work. Tests of change are not
    needed: it waits a limited time for those of the last window.

    Attributes:
        found: number of windows whose final and total are complete.
    """

    name = "retire"

    def __init__(
        self,
        plan: Plan,
        broker: Broker,
        names: TopicNames,
        clock: Clock,
        through: int,
        *,
        tests_seconds: float = 0.0,
    ) -> None:
        self.health = RoleHealth(self.name, clock)
        self.found = 0
        self._plan = plan
        self._broker = broker
        self._names = names
        self._clock = clock
        self._through = through
        self._tests_seconds = tests_seconds
        self._tested = -1
        self._assembler = SnapshotAssembler(plan)
        self._foreign = ForeignRecordCounter(structlog.get_logger("calmstream.retire").warning)

    def deadline_ms(self) -> int:
        """Return the time by which all windows must be published, milliseconds since the epoch."""
        closes = self._plan.window_end(self._through) + self._plan.grace * 1000
        return max(closes, self._clock.now_ms()) + round(_SLACK_SECONDS * 1000)

    def run(self, stop: threading.Event) -> None:
        """Read the snapshots and counts topics until all finals and totals are complete."""
        deadline, complete = self.deadline_ms(), Completeness(self._plan)
        topics = [Partition(topic, 0) for topic in (self._names.snapshots, self._names.counts)]
        with closing(TopicReader(self._broker, topics, self._clock)) as source:
            while not self._done(complete):
                if self._clock.now_ms() > deadline:
                    raise FatalError(self._overdue(complete))
                self._turn(source, complete, stop)
            self._await_tests(source, complete, stop)

    def _await_tests(
        self, source: TopicReader, complete: Completeness, stop: threading.Event
    ) -> None:
        deadline = self._clock.monotonic() + self._tests_seconds
        while self._tested < self._through and self._clock.monotonic() < deadline:
            self._turn(source, complete, stop)
        if self._tests_seconds and self._tested < self._through:
            structlog.get_logger("calmstream.retire").warning(
                "some windows have no tests of change", tested_through=self._tested
            )

    def _turn(self, source: TopicReader, complete: Completeness, stop: threading.Event) -> None:
        """Read once; FatalError if the role was asked to stop."""
        if stop.is_set():
            raise FatalError("interrupted: nothing was deleted; reports stay refused; run it again")
        try:
            for record in source.poll(_POLL_SECONDS):
                with self._foreign.reading(record):
                    self._read(record, complete)
        except RecoverableError as error:
            structlog.get_logger("calmstream.retire").warning("waiting", error=str(error))
            stop.wait(_POLL_SECONDS)
        self.health.turned()

    def _read(self, record: Record, complete: Completeness) -> None:
        key = key_of(record)
        if record.partition.topic == self._names.counts:
            if is_changes_key(key):
                tests = decode_changes(self._plan, key, record.value)
                self._tested = max(self._tested, tests.window)
            else:
                complete.read_counts(key, record.value)
            return
        found = self._assembler.read(key, record.value)
        if found is not None and found.kind in (Kind.FINAL, Kind.TOTAL):
            complete.found(found.manifest)

    def _overdue(self, complete: Completeness) -> str:
        missing = f"{self._through + 1 - self.found} finals are missing"
        if lacking := complete.without_counts():
            missing += f" ({len(lacking)} of them lack only their counts)"
        return (
            f"{missing} long after their windows closed; nothing was deleted; "
            "see calmstream inspect"
        )

    def _done(self, complete: Completeness) -> bool:
        self.found = sum(map(complete.both, range(self._through + 1)))
        return self.found > self._through
