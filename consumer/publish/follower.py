"""Reads the state topic (what to publish), and snapshots and counts (what is published)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping

from calmstream.broker.transport import Partition, Reader, Record, Topics
from calmstream.consumer.metrics.publisher import FOREIGN
from calmstream.consumer.publish.completeness import Completeness
from calmstream.consumer.publish.config import PublisherContext
from calmstream.consumer.publish.merge import StateMerger
from calmstream.consumer.runtime.foreign_records import ForeignRecordCounter, key_of
from calmstream.consumer.runtime.read_topics import EndCheck
from calmstream.consumer.subscribe.assembler import SetId, SnapshotAssembler
from calmstream.estimators.plan import Plan
from calmstream.estimators.wire.snapshot import Kind, Manifest, parse_key


class UnfinishedWindows:
    """Holds counts of the newest finished window and of all later ones, at most ``most``.

    Windows are finished in their order; ``through`` is the newest finished one.
    """

    def __init__(self, plan: Plan, *, on: bool, most: int = sys.maxsize) -> None:
        self.through = -1
        self._groups = len(plan.groups)
        self._on = on
        self._most = most
        self._records: dict[int, dict[int, bytes]] = {}

    def read(self, window: int, group: int, value: bytes) -> None:
        """Keep a record of counts, unless its window was left behind."""
        if not self._on or window < self.through:
            return
        self._records.setdefault(window, {})[group] = value
        if len(self._records) > self._most:
            self.finish(sorted(self._records)[-self._most])

    def finish(self, window: int) -> None:
        """Note that nothing is to be made of a window any more; forget those before it."""
        self.through = max(self.through, window)
        for old in [number for number in self._records if number < self.through]:
            del self._records[old]

    def whole(self) -> list[int]:
        """Return the windows after the finished ones with counts of all groups, ascending."""
        found = self._records.items()
        return sorted(w for w, r in found if w > self.through and len(r) == self._groups)

    def records(self, window: int) -> Mapping[int, bytes] | None:
        """Return the record of every group; None where they are not all here."""
        found = self._records.get(window, {})
        return dict(found) if len(found) == self._groups else None


class TopicFollower:
    """Reads the topics from their starts, and keeps what the publisher needs."""

    def __init__(
        self,
        context: PublisherContext,
        reader: Reader,
        topics: Topics,
        found: Callable[[Manifest, SnapshotAssembler], None],
    ) -> None:
        plan, names = context.plan, context.names
        self.untested = UnfinishedWindows(plan, on=context.config.test_changes, most=2)
        # The only window of a plan is what is known now.
        self.untracked = UnfinishedWindows(plan, on=context.config.track and plan.windows > 1)
        self.merger = StateMerger(plan)
        self.assembler = SnapshotAssembler(plan)
        self.completeness = Completeness(plan)
        self.early_keys: dict[int, set[bytes]] = {}
        self.foreign = ForeignRecordCounter(context.log.warning)
        self._metrics = context.metrics
        self._reader = reader
        self._topics = topics
        self._found = found
        self._snapshots = Partition(names.snapshots, 0)
        self._counts = Partition(names.counts, 0)
        state = [Partition(names.state, number) for number in range(plan.partitions)]
        # What is published is read first: counts of windows that are already published need not be
        # kept when the state topic is read. Each topic is read alone, because the client waits for
        # records of partitions that have none before it fetches again from the others.
        self._unread: list[list[Partition]] = [[self._snapshots], [self._counts], state]
        self._positions: dict[Partition, int] = {}
        self._end_check: EndCheck | None = None

    @property
    def caught_up(self) -> bool:
        return not self._unread

    def has_read(self, manifest: int, counts: int) -> bool:
        """Return whether the records at these offsets were read; -1 for none."""
        read = self._reader.position(self._snapshots) > manifest
        return read and (counts < 0 or self._reader.position(self._counts) > counts)

    def catch_up(self, timeout: float) -> bool:
        """Read towards the ends of the topics, at most one poll; return whether it is nearer."""
        found = False
        wanted = self._unread[0]
        if self._end_check is None:
            self._positions |= self._topics.log_starts(wanted)
            last = len(self._unread) == 1
            assigned = list(self._positions) if last else wanted
            self._reader.assign(assigned)
            for partition in assigned:
                self._reader.seek(partition, self._positions[partition])
            self._end_check = EndCheck(self._reader, self._topics, wanted)
        if not self._end_check.update():
            found = self.read(timeout)
        if self._end_check.update():
            found = True
            self._positions |= {p: self._reader.position(p) for p in wanted}
            self._unread.pop(0)
            self._end_check = None
        return found

    def read(self, timeout: float) -> bool:
        """Read the records of one poll; return whether there were any."""
        records, foreign = self._reader.poll(timeout), self.foreign.count
        for record in records:
            with self.foreign.reading(record):
                key = key_of(record)
                if record.partition == self._snapshots:
                    self._read_snapshot(key, record)
                elif record.partition == self._counts:
                    self._read_counts(key, record.value)
                else:
                    self.merger.read(key, record.value)
        self._metrics.inc(FOREIGN, self.foreign.count - foreign)
        return bool(records)

    def _read_snapshot(self, key: bytes, record: Record) -> None:
        window, kind, _ = parse_key(key)
        snapshot = self.assembler.read(key, record.value)
        if kind is Kind.EARLY:
            self._note_early(window, key, record.value)
        if snapshot is None or kind in (Kind.EARLY, Kind.CURRENT):
            return
        self._found(snapshot.manifest, self.assembler)
        self._complete(self.completeness.found(snapshot.manifest))

    def _read_counts(self, key: bytes, value: bytes | None) -> None:
        header, closed = self.completeness.read_counts(key, value)
        assert value is not None
        for unfinished in (self.untested, self.untracked):
            unfinished.read(header.window, header.group, value)
        self._complete(closed)

    def _complete(self, closed: SetId | None) -> None:
        if closed is not None and self.completeness.both(closed.window):
            self.merger.settle(closed.window)

    def _note_early(self, window: int, key: bytes, value: bytes | None) -> None:
        keys = self.early_keys.setdefault(window, set())
        if value is None:
            keys.discard(key)
        else:
            keys.add(key)
        if not keys:
            del self.early_keys[window]
