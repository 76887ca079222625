"""Reads the snapshots topic of a plan for roles that follow it: complete sets, oldest first."""

from __future__ import annotations

from collections.abc import Callable

from calmstream.broker.names import TopicNames
from calmstream.broker.topic_watch import EVERY_SECONDS, watch_plan
from calmstream.broker.transport import Broker, Partition, Record
from calmstream.common.clock import Clock
from calmstream.consumer.runtime.foreign_records import ForeignRecordCounter, key_of
from calmstream.consumer.runtime.read_topics import TopicReader
from calmstream.consumer.subscribe.assembler import Snapshot, SnapshotAssembler
from calmstream.estimators.plan import Plan


class SetReader:
    """Assembles the sets of one plan; skips what calmstream did not write."""

    def __init__(self, plan: Plan, warn: Callable[[str], object]) -> None:
        self._assembler = SnapshotAssembler(plan)
        self._foreign = ForeignRecordCounter(warn)

    def read(self, record: Record) -> Snapshot | None:
        """Take the next record; return the set that it completes, if any."""
        found = None
        with self._foreign.reading(record):
            found = self._assembler.read(key_of(record), record.value)
        return found  # noqa: RET504 - None where the record is skipped


class SnapshotTopic(TopicReader):
    """The topic of one plan, while it is there; a reader of results may not read settings."""

    def __init__(
        self,
        plan: Plan,
        broker: Broker,
        names: TopicNames,
        clock: Clock,
        warn: Callable[[str], object],
        *,
        check_seconds: float = EVERY_SECONDS,
        retry_seconds: float | None = None,
    ) -> None:
        super().__init__(broker, [Partition(names.snapshots, 0)], clock)
        self._sets = SetReader(plan, warn)
        try:
            self.start()
            found = self.topics.describe([names.snapshots], ())
        except BaseException:
            self.close()
            raise
        self.watch = watch_plan(
            plan,
            names,
            self.topics,
            found,
            clock,
            every_seconds=check_seconds,
            retry_seconds=retry_seconds,
        )

    def sets(self, seconds: float) -> list[Snapshot] | None:
        """Return the sets that what has arrived completes; None if nothing has arrived."""
        records = self.poll(seconds)
        found = [snapshot for record in records if (snapshot := self._sets.read(record))]
        return found if records else None
