"""Readers of an in-process broker, without a group and as a member of a group."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping

from calmstream.broker.in_process.cluster import Cluster
from calmstream.broker.in_process.cursor import Cursor
from calmstream.broker.records import in_chunks
from calmstream.broker.transport import AssignmentChanges, Chunk, Partition, Record
from calmstream.common.errors import FatalError

# Kafka's default for the number of records that one poll returns.
DEFAULT_MAX_RECORDS = 500


class _ReaderBase:
    """The operations that both kinds of reader have: seek, position, and a poll that waits."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._monitor = cluster.monitor
        self._cursor = Cursor(cluster)
        self.closed = False

    def seek(self, partition: Partition, offset: int) -> None:
        """Set the position; FatalError if the partition is not assigned."""
        with self._monitor:
            self._cursor.seek(partition, offset)

    def position(self, partition: Partition) -> int:
        """Return the offset of the next record."""
        with self._monitor:
            return self._cursor.position(partition)

    def poll(self, timeout: float, max_records: int = DEFAULT_MAX_RECORDS) -> list[Record]:
        """Return records as soon as there are any; return at once if the assignment changes."""
        deadline = time.monotonic() + timeout
        with self._monitor:
            while True:
                if self.closed:
                    raise FatalError("the reader is closed")
                changed = self._heartbeat()
                records = [] if self._waits() else self._cursor.fetch(max_records)
                if records or changed or not self._monitor.wait(deadline):
                    return records

    def poll_chunks(self, timeout: float, max_records: int = DEFAULT_MAX_RECORDS) -> list[Chunk]:
        """Return what :meth:`poll` returns, as columns."""
        return in_chunks(self.poll(timeout, max_records))

    def _heartbeat(self) -> bool:
        """Keep the membership alive, under the lock; return whether the assignment changed.

        A reader without a group has no membership.
        """
        return False

    def _waits(self) -> bool:
        """Return whether polls wait for the coordinator of a group, under the lock."""
        return False


class InProcessReader(_ReaderBase):
    """Reads partitions that its caller chooses; see `Reader`."""

    def assign(self, partitions: Collection[Partition]) -> None:
        """Read exactly these partitions; those read before keep their positions."""
        with self._monitor:
            for partition in partitions:
                self._cluster.log(partition)
            previous = self._cursor.partitions()
            self._cursor.drop(previous - set(partitions))
            self._cursor.add(set(partitions) - previous, paused=False)

    def close(self) -> None:
        """Refuse further polls."""
        with self._monitor:
            self.closed = True
            self._monitor.notify()


class InProcessGroupReader(_ReaderBase):
    """A member of a group; see `GroupReader`."""

    def __init__(
        self,
        cluster: Cluster,
        group: str,
        instance: str | None,
        seconds: Callable[[], float],
    ) -> None:
        super().__init__(cluster)
        with self._monitor:
            self._group = cluster.group(group)
        self._instance = instance
        self._seconds = seconds
        self._topics: frozenset[str] = frozenset()
        self._member: str | None = None
        self._changes = AssignmentChanges()

    def subscribe(self, topics: Iterable[str]) -> None:
        """Join the group, or change the topics, at the next poll; FatalError for a missing one."""
        with self._monitor:
            wanted = frozenset(topics)
            for topic in wanted - self._topics:
                self._cluster.logs(topic)
            self._topics = wanted
            if self._member is not None:
                self._group.change_topics(self._member, wanted)
                self._monitor.notify()

    def joined(self) -> bool:
        """Return whether this is a member of its group and knows the coordinator."""
        with self._monitor:
            return self._member is not None and not self._cluster.coordinator_away

    def take_changes(self) -> AssignmentChanges:
        """Return the assignment changes since the last call."""
        with self._monitor:
            changes, self._changes = self._changes, AssignmentChanges()
            return changes

    def assignment(self) -> frozenset[Partition]:
        """Return the partitions that this member owned at its last poll."""
        with self._monitor:
            return self._cursor.partitions()

    def pause(self, partitions: Collection[Partition]) -> None:
        """Stop returning records of these partitions."""
        with self._monitor:
            self._cursor.pause(partitions)

    def resume(self, partitions: Collection[Partition]) -> None:
        """Return records of these partitions again."""
        with self._monitor:
            self._cursor.resume(partitions)

    def end_offset(self, partition: Partition) -> int | None:
        """Return the end of the log as of the last fetch."""
        with self._monitor:
            return self._cursor.end(partition)

    def commit(self, offsets: Mapping[Partition, int]) -> None:
        """Keep offsets for tools that show the lag, for partitions that this member still owns."""
        with self._monitor:
            owned = self._group.owned(self._member or "")
            self._group.committed.update({p: o for p, o in offsets.items() if p in owned})

    def expire(self) -> None:
        """Expel this member as if its session had expired; it notices at its next poll."""
        with self._monitor:
            if self._member is not None:
                self._group.remove(self._member)
                self._monitor.notify()

    def close(self, timeout: float) -> None:  # noqa: ARG002 - part of the protocol
        """Leave the group; a static member keeps its place until its session ends."""
        with self._monitor:
            if not self.closed:
                self.closed = True
                if self._instance is None:
                    self._leave()
                self._monitor.notify()

    def _leave(self) -> None:
        if self._member is not None:
            self._group.remove(self._member)
            self._member = None
            self._monitor.notify()

    def _waits(self) -> bool:
        return self._cluster.coordinator_away

    def _heartbeat(self) -> bool:
        if not self._topics or self._waits():
            return False
        now, sizes = self._seconds(), self._cluster.sizes()
        previous = self._cursor.partitions()
        owned = None if self._member is None else self._group.sync(self._member, sizes, now)
        if owned is None:
            self._note(gone=previous, lost=True, added=frozenset())
            previous = frozenset()
            self._member = self._group.join(self._topics, self._instance, now)
            owned = self._group.sync(self._member, sizes, now)
            assert owned is not None
            self._monitor.notify()
        self._note(gone=previous - owned, lost=False, added=owned - previous)
        return owned != previous

    def _note(self, *, gone: frozenset[Partition], lost: bool, added: frozenset[Partition]) -> None:
        """Apply a change to the cursor and add it to what :meth:`take_changes` returns."""
        self._cursor.drop(gone)
        self._cursor.add(added, paused=True)
        if gone or added:
            before = self._changes
            self._changes = AssignmentChanges(
                revoked=before.revoked if lost else before.revoked | gone,
                lost=before.lost | gone if lost else before.lost,
                added=(before.added - gone) | added,
            )
            self._monitor.notify()
