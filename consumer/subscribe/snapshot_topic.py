"""Reads the snapshots topic of a plan: complete sets, oldest first."""

from __future__ import annotations

from collections.abc import Callable

from calmstream.broker.names import TopicNames
from calmstream.broker.topic_watch import EVERY_SECONDS, TopicWatch, watch_plan
from calmstream.broker.transport import Broker, Partition, Record
from calmstream.common.clock import Clock
from calmstream.consumer.runtime.foreign_records import ForeignRecordCounter, key_of
from calmstream.consumer.runtime.read_topics import TopicReader
from calmstream.consumer.subscribe.assembler import Snapshot, SnapshotAssembler
from calmstream.estimators.plan import Plan


class SnapshotTopic(TopicReader):
    """The topic of one plan; skips what calmstream did not write."""

    def __init__(
        self,
        plan: Plan,
        broker: Broker,
        names: TopicNames,
        clock: Clock,
        warn: Callable[[str], object],
    ) -> None:
        super().__init__(broker, [Partition(names.snapshots, 0)], clock)
        self._plan = plan
        self._names = names
        self._clock = clock
        self._assembler = SnapshotAssembler(plan)
        self._foreign = ForeignRecordCounter(warn)

    def watched(
        self, *, check_seconds: float = EVERY_SECONDS, retry_seconds: float | None = None
    ) -> TopicWatch:
        """Begin to read; return the watch of the topic, of which a reader may not read settings."""
        self.start()
        return watch_plan(
            self._plan,
            self._names,
            self.topics,
            self.topics.describe([self._names.snapshots], ()),
            self._clock,
            every_seconds=check_seconds,
            retry_seconds=retry_seconds,
        )

    def read(self, record: Record) -> Snapshot | None:
        """Take the next record; return the set that it completes, if any."""
        found = None
        with self._foreign.reading(record):
            found = self._assembler.read(key_of(record), record.value)
        return found  # noqa: RET504 - None where the record is skipped

    def sets(self, seconds: float) -> list[Snapshot] | None:
        """Return the sets that what has arrived completes; None if nothing has arrived."""
        records = self.poll(seconds)
        found = [snapshot for record in records if (snapshot := self.read(record))]
        return found if records else None
