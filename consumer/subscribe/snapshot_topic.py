"""Reads the snapshots topic of a plan for roles that follow it: complete sets, oldest first."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

from calmstream.broker.names import TopicNames
from calmstream.broker.topic_watch import EVERY_SECONDS, TopicWatch
from calmstream.broker.transport import Broker, Record
from calmstream.common.clock import Clock
from calmstream.consumer.runtime.foreign_records import ForeignRecordCounter, key_of
from calmstream.consumer.runtime.topic_records import TopicRecords, watch_of_snapshots
from calmstream.consumer.subscribe.assembler import Snapshot, SnapshotAssembler
from calmstream.estimators.plan import Plan

_POLL_RECORDS = 2000


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


class SnapshotTopic:
    """The topic from its oldest record on, while it is there. For one thread at a time."""

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
        self._sets = SetReader(plan, warn)
        with ExitStack() as undo:
            self._topics = broker.topics()
            undo.callback(self._topics.close)
            self._reader = broker.reader()
            undo.callback(self._reader.close)
            self._source = TopicRecords(self._reader, self._topics, names.snapshots)
            self._source.start()
            self.watch: TopicWatch = watch_of_snapshots(
                plan,
                names,
                self._topics,
                clock,
                every_seconds=check_seconds,
                retry_seconds=retry_seconds,
            )
            undo.pop_all()

    def poll(self, seconds: float) -> list[Snapshot] | None:
        """Return the sets that what has arrived completes; None if nothing has arrived."""
        records = self._reader.poll(seconds, _POLL_RECORDS)
        found = [snapshot for record in records if (snapshot := self._sets.read(record))]
        return found if records else None

    def at_end(self) -> bool:
        return self._source.at_end()

    def close(self) -> None:
        self._reader.close()
        self._topics.close()
