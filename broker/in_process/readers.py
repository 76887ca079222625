"""Readers of an in-process broker, without a group and as a member of a group."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping

from calmstream.broker.in_process.cluster import Cluster
from calmstream.broker.records import in_chunks
from calmstream.broker.transport import AssignmentChanges, Chunk, Partition, Reading, Record
from calmstream.common.errors import FatalError


class _Reader(Reading):
    """Positions, and fair fetching from the partitions.

    Log ends are reported as in Kafka's incremental fetch sessions (KIP-227): a response contains a
    partition only if there are records, or if its end differs from the end that was reported last.
    A partition that is missing from a fetch is forgotten.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._lock = cluster.lock
        self._positions: dict[Partition, int | None] = {}
        self._paused: set[Partition] = set()
        self._ends: dict[Partition, int] = {}  # what `end_offset` answers
        self._session: dict[Partition, int] = {}  # what a broker would have reported last
        self._turn = 0
        self.closed = False

    def seek(self, partition: Partition, offset: int) -> None:
        with self._lock:
            self._require(partition)
            if offset < 0:
                raise FatalError(f"{partition}: cannot seek to {offset}")
            self._positions[partition] = offset

    def position(self, partition: Partition) -> int:
        with self._lock:
            return self._at(partition)

    def poll_chunks(self, timeout: float, max_records: int = 500) -> list[Chunk]:
        deadline = time.monotonic() + timeout
        with self._lock:
            while True:
                if self.closed:
                    raise FatalError("the reader is closed")
                changed = self._heartbeat()
                records = self._fetch(max_records)
                remaining = deadline - time.monotonic()
                if records or changed or remaining <= 0:
                    return in_chunks(records)
                self._lock.wait(remaining)

    def _heartbeat(self) -> bool:
        """Keep the membership alive; return whether the assignment changed."""
        return False

    def _drop(self, partitions: Iterable[Partition]) -> None:
        for partition in partitions:
            del self._positions[partition]
            self._ends.pop(partition, None)
            self._paused.discard(partition)

    def _fetch(self, limit: int) -> list[Record]:
        # Each call begins with another partition, so that no partition waits for ever.
        active = sorted(self._positions.keys() - self._paused)
        if active:
            # Without partitions to fetch there is no request, and the session stays unchanged.
            self._session = {p: end for p, end in self._session.items() if p in active}
        self._turn += 1
        turn = self._turn % len(active) if active else 0
        records: list[Record] = []
        for partition in active[turn:] + active[:turn]:
            if len(records) < limit and self._cluster.answers(partition):
                records += self._fetch_one(partition, limit - len(records))
        return records

    def _fetch_one(self, partition: Partition, limit: int) -> list[Record]:
        log = self._cluster.log(partition)
        records = log.read(self._at(partition), limit)
        self._positions[partition] = records[-1].offset + 1 if records else log.end
        if records or self._session.get(partition) != log.end:
            self._session[partition] = self._ends[partition] = log.end
        return records

    def _at(self, partition: Partition) -> int:
        self._require(partition)
        position = self._positions[partition]
        if position is None:
            raise FatalError(f"{partition}: no position yet, seek first")
        return position

    def _require(self, partition: Partition) -> None:
        if partition not in self._positions:
            raise FatalError(f"{partition} is not assigned to this reader")


class InProcessReader(_Reader):
    """Reads partitions that its caller chooses; see `Reader`."""

    def assign(self, partitions: Collection[Partition]) -> None:
        with self._lock:
            for partition in partitions:
                self._cluster.log(partition)
            previous = set(self._positions)
            self._drop(previous - set(partitions))
            self._positions |= dict.fromkeys(set(partitions) - previous)

    def close(self) -> None:
        with self._lock:
            self.closed = True
            self._lock.notify_all()


class InProcessGroupReader(_Reader):
    """A member of a group; see `GroupReader`."""

    def __init__(
        self,
        cluster: Cluster,
        group: str,
        seconds: Callable[[], float],
    ) -> None:
        super().__init__(cluster)
        with self._lock:
            self._group = cluster.group(group)
        self._seconds = seconds
        self._topics: frozenset[str] = frozenset()
        self._member: str | None = None
        self._changes = AssignmentChanges()

    def subscribe(self, topics: Iterable[str]) -> None:
        with self._lock:
            wanted = frozenset(topics)
            for topic in wanted - self._topics:
                self._cluster.logs(topic)
            self._topics = wanted
            if self._member is not None:
                self._group.change_topics(self._member, wanted)
                self._lock.notify_all()

    def joined(self) -> bool:
        with self._lock:
            return self._member is not None and not self._cluster.coordinator_away

    def take_changes(self) -> AssignmentChanges:
        with self._lock:
            changes, self._changes = self._changes, AssignmentChanges()
            return changes

    def assignment(self) -> frozenset[Partition]:
        with self._lock:
            return frozenset(self._positions)

    def pause(self, partitions: Collection[Partition]) -> None:
        with self._lock:
            self._paused |= self._positions.keys() & set(partitions)

    def resume(self, partitions: Collection[Partition]) -> None:
        with self._lock:
            wanted = self._positions.keys() & set(partitions)
            for partition in wanted:
                self._at(partition)  # it must be known
            self._paused -= wanted

    def end_offset(self, partition: Partition) -> int | None:
        with self._lock:
            return self._ends.get(partition)

    def commit(self, offsets: Mapping[Partition, int]) -> None: ...

    def expire(self) -> None:
        """Expel this member as if its session had expired; it notices at its next poll."""
        with self._lock:
            if self._member is not None:
                self._group.remove(self._member)
                self._lock.notify_all()

    def close(self, timeout: float = 0.0) -> None:  # noqa: ARG002 - part of the protocol
        with self._lock:
            if not self.closed:
                self.closed = True
                self.expire()
                self._lock.notify_all()

    def _fetch(self, limit: int) -> list[Record]:
        return [] if self._cluster.coordinator_away else super()._fetch(limit)

    def _heartbeat(self) -> bool:
        if not self._topics or self._cluster.coordinator_away:
            return False
        now, sizes = self._seconds(), self._cluster.sizes()
        previous = self.assignment()
        owned = None if self._member is None else self._group.sync(self._member, sizes, now)
        if owned is None:
            self._note(AssignmentChanges(lost=previous))
            previous = frozenset()
            self._member = self._group.join(self._topics, now)
            owned = self._group.sync(self._member, sizes, now) or frozenset()
            self._lock.notify_all()
        self._note(AssignmentChanges(revoked=previous - owned, added=owned - previous))
        return owned != previous

    def _note(self, change: AssignmentChanges) -> None:
        if change != AssignmentChanges():
            self._drop(change.gone)
            self._positions |= dict.fromkeys(change.added)
            self._paused |= change.added
            self._changes = self._changes.then(change)
            self._lock.notify_all()
