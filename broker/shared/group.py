"""One membership of a consumer group, shared by many plans.

Only the owner of the group calls :meth:`SharedGroup.turn`, which polls the broker. The shares hand
out what the polls have brought; a call of a share never waits.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping

from calmstream.broker.shared.queue import RecordQueue
from calmstream.broker.transport import AssignmentChanges, Chunk, GroupReader, Partition
from calmstream.common.clock import Clock
from calmstream.common.errors import FatalError, MissingTopic, RecoverableError

_FRESH_SECONDS = 5.0
"""After a poll of the group, shares count as polled for this long."""

_REFRESH_SECONDS = 2.0
"""Time between two looks at the positions and ends of all partitions."""

_TOTAL_BYTES = 64 << 20
"""Above this size of all records that wait, no plan with waiting records is read further."""


class GroupShare(GroupReader):
    """A plan's part of a shared membership; see `GroupReader`. One thread at a time."""

    def __init__(self, group: SharedGroup) -> None:
        self._group = group
        self._lock = group.lock
        self.topics: frozenset[str] = frozenset()
        self.attached = False
        self.owned: frozenset[Partition] = frozenset()
        self.changes = AssignmentChanges()
        self.queue = RecordQueue()
        self.seeks: dict[Partition, int] = {}
        self.started: set[Partition] = set()
        self.paused: set[Partition] = set()
        self.ends: dict[Partition, int] = {}
        self.commits: dict[Partition, int] = {}
        self.error: FatalError | None = None

    def attach(self) -> None:
        """Begin anew: all owned partitions are new, paused and without positions."""
        with self._lock:
            self._forget()
            self.attached = True
            self.changes = AssignmentChanges(added=self.owned)
            self.error = None

    def subscribe(self, topics: Iterable[str]) -> None:
        """Take part in the group for these topics; a missing one is an error of the next poll."""
        with self._lock:
            self.topics = frozenset(topics)
            self._group.topics_changed()

    def poll_chunks(self, timeout: float, max_records: int = 500) -> list[Chunk]:  # noqa: ARG002
        """Return records that have arrived, without waiting."""
        with self._lock:
            if not self.attached:
                raise FatalError("the reader is closed")
            if self.error is not None:
                raise self.error
            self._group.check_fresh()
            return self.queue.take(max_records, self.paused)

    def joined(self) -> bool:
        return self._group.joined

    def take_changes(self) -> AssignmentChanges:
        with self._lock:
            changes, self.changes = self.changes, AssignmentChanges()
            return changes

    def assignment(self) -> frozenset[Partition]:
        return self.owned

    def seek(self, partition: Partition, offset: int) -> None:
        with self._lock:
            self._require(partition)
            self.queue.restart(partition, offset)
            self.seeks[partition] = offset

    def position(self, partition: Partition) -> int:
        with self._lock:
            self._require(partition)
            return self.queue.position(partition)

    def pause(self, partitions: Collection[Partition]) -> None:
        """Stop returning records of these partitions; those that wait are kept."""
        with self._lock:
            self.paused |= self.owned.intersection(partitions)

    def resume(self, partitions: Collection[Partition]) -> None:
        with self._lock:
            wanted = self.owned.intersection(partitions)
            for partition in wanted:
                self.queue.position(partition)  # it must be known
            self.paused -= wanted
            self.started |= wanted

    def end_offset(self, partition: Partition) -> int | None:
        return self.ends.get(partition)

    def commit(self, offsets: Mapping[Partition, int]) -> None:
        with self._lock:
            self.commits |= offsets

    def close(self, timeout: float) -> None:  # noqa: ARG002 - part of the protocol
        """Stop reading. The member keeps the partitions, paused, until :meth:`release`."""
        with self._lock:
            self._forget()
            self.attached = False

    def release(self) -> None:
        """Give the topics up: the group may assign their partitions to other members."""
        self.close(0.0)
        with self._lock:
            self._group.remove(self)

    # For the group, under its lock.

    def apply(self, changes: AssignmentChanges, owned: frozenset[Partition]) -> None:
        changed = changes.gone | changes.added
        self.owned = owned
        self.queue.drop(changed)
        for table in (self.seeks, self.ends, self.commits):
            for partition in changed & table.keys():
                del table[partition]
        self.started -= changed
        self.paused -= changed
        if self.attached:
            self.changes = self.changes.then(changes)

    def note_end(self, partition: Partition, end: int | None) -> None:
        if end is not None:
            self.ends[partition] = end

    def fail(self, error: FatalError) -> None:
        self.error = self.error or error
        self.started.clear()
        self.queue.clear()

    def _forget(self) -> None:
        self.queue.clear()
        self.seeks.clear()
        self.started.clear()
        self.paused.clear()
        self.commits.clear()
        self.changes = AssignmentChanges()

    def _require(self, partition: Partition) -> None:
        if partition not in self.owned:
            raise FatalError(f"{partition} is not assigned to this reader")


class SharedGroup:
    """The membership; ``lock`` guards the shares. One thread calls `turn` and `close`."""

    def __init__(
        self, connect: Callable[[], GroupReader], clock: Clock, *, poll_records: int = 5000
    ) -> None:
        self.lock = threading.RLock()
        self._connect = connect
        self._clock = clock
        self._poll_records = poll_records
        self._member: GroupReader | None = None
        self._shares: list[GroupShare] = []
        self._by_topic: dict[str, GroupShare] = {}
        self._changed = False
        self._subscribed: frozenset[str] = frozenset()
        self.owned: frozenset[Partition] = frozenset()
        self._reading: set[Partition] = set()
        self.polled_at = self._refresh_at = clock.monotonic()

    @property
    def joined(self) -> bool:
        member = self._member
        return member is not None and member.joined()

    @property
    def idle(self) -> bool:
        """Whether there is no topic, and so no membership: a turn does not wait."""
        return self._member is None

    @property
    def all_behind(self) -> bool:
        """Whether so many records wait for every plan that none is read further."""
        with self.lock:
            reading = [share for share in self._shares if share.started]
            return bool(reading) and all(map(self._behind, reading))

    def share(self) -> GroupShare:
        with self.lock:
            share = GroupShare(self)
            self._shares.append(share)
            return share

    def turn(self, timeout: float) -> set[GroupShare]:
        with self.lock:
            due = self._resubscribe()
            member = self._member
            if member is None:
                self.polled_at = self._clock.monotonic()
                return due
            self._seek_and_commit(member)
            self._flow(member)
        try:
            chunks = member.poll_chunks(timeout, self._poll_records)
        except FatalError as error:
            with self.lock:
                due |= self._blame(error) | self._distribute_changes(member)
                self._read_again()
                return due
        self.polled_at = self._clock.monotonic()
        with self.lock:
            due |= self._distribute_changes(member)
            due |= self._distribute(member, chunks)
            self._refresh(member)
        return due

    def close(self, timeout: float) -> None:
        member, self._member = self._member, None
        self.owned = frozenset()
        if member is not None:
            member.close(timeout)

    # For the shares, under the lock.

    def topics_changed(self) -> None:
        self._changed = True

    def remove(self, share: GroupShare) -> None:
        if share in self._shares:
            self._shares.remove(share)
            self._changed = True

    def check_fresh(self) -> None:
        """Check that the member was polled a moment ago: then it still owns its partitions."""
        seconds = self._clock.monotonic() - self.polled_at
        if seconds > _FRESH_SECONDS:
            raise RecoverableError(f"the group has not been polled for {seconds:.1f} s")

    # The steps of a turn, under the lock.

    def _resubscribe(self) -> set[GroupShare]:
        if not self._changed:
            return set()
        self._by_topic = {topic: share for share in self._shares for topic in share.topics}
        # A share that has failed may name topics that do not exist.
        wanted = {t for t, share in self._by_topic.items() if share.attached or share.owned}
        failed: set[GroupShare] = set()
        while wanted != self._subscribed:
            if not wanted:
                self.close(1.0)
            else:
                self._member = self._member or self._connect()
                try:
                    self._member.subscribe(sorted(wanted))
                except MissingTopic as error:
                    if not error.topics & wanted:
                        raise
                    failed |= self._blame(error)
                    wanted -= error.topics
                    continue
            self._subscribed = frozenset(wanted)
        self._changed = False
        if self._member is not None:
            self.owned = self._member.assignment()
        self._reading &= self.owned
        return failed | self._hand_over(AssignmentChanges())

    def _hand_over(self, changes: AssignmentChanges) -> set[GroupShare]:
        """Give partitions that the member owns to the shares that have their topics now."""
        due: set[GroupShare] = set()
        for share in self._shares:
            mine = _of(self.owned, share.topics)
            lost = _of(changes.lost, share.topics)
            change = AssignmentChanges(
                revoked=(share.owned - mine - lost) | _of(changes.revoked, share.topics),
                lost=lost,
                added=(mine - share.owned) | _of(changes.added, share.topics),
            )
            if change != AssignmentChanges():
                share.apply(change, mine)
                due.add(share)
        return due

    def _seek_and_commit(self, member: GroupReader) -> None:
        owned = self.owned
        for share in self._shares:
            for partition, offset in share.seeks.items():
                if partition in owned:
                    member.seek(partition, offset)
            share.seeks.clear()
            if share.commits:
                member.commit({p: o for p, o in share.commits.items() if p in owned})
                share.commits.clear()

    def _flow(self, member: GroupReader) -> None:
        """Read the partitions that were started, except those of plans that are behind."""
        waiting = sum(share.queue.size for share in self._shares)
        wanted: set[Partition] = set()
        for share in self._shares:
            if not self._behind(share) and (waiting <= _TOTAL_BYTES or not len(share.queue)):
                wanted |= share.started
        wanted &= self.owned
        if self._reading - wanted:
            member.pause(self._reading - wanted)
        if wanted - self._reading:
            member.resume(wanted - self._reading)
        self._reading = wanted

    def _behind(self, share: GroupShare) -> bool:
        return len(share.queue) >= self._poll_records

    def _distribute_changes(self, member: GroupReader) -> set[GroupShare]:
        changes = member.take_changes()
        if changes == AssignmentChanges():
            return set()
        self._reading -= changes.gone | changes.added
        self.owned = member.assignment()
        return self._hand_over(changes)

    def _distribute(self, member: GroupReader, chunks: Iterable[Chunk]) -> set[GroupShare]:
        read: dict[Partition, GroupShare] = {}
        for chunk in chunks:
            partition = chunk.partition
            share = self._by_topic.get(partition.topic)
            # A share may have stopped or moved its position while the poll was on its way.
            if share and partition in share.started and partition not in share.seeks:
                share.queue.put(chunk)
                read[partition] = share
        for partition, share in read.items():
            share.note_end(partition, member.end_offset(partition))
        return set(read.values())

    def _refresh(self, member: GroupReader) -> None:
        """Look at positions and ends: they move without records too, over gaps in the log."""
        now = self._clock.monotonic()
        if now < self._refresh_at:
            return
        self._refresh_at = now + _REFRESH_SECONDS
        for share in self._shares:
            for partition in (share.started & self._reading) - share.seeks.keys():
                share.queue.reached(partition, member.position(partition))
                share.note_end(partition, member.end_offset(partition))

    def _blame(self, error: FatalError) -> set[GroupShare]:
        """Give an error to the shares that it concerns; raise it if it concerns none."""
        concerned = {share for share in self._shares if share.topics & error.topics}
        if not concerned:
            raise error
        for share in concerned:
            share.fail(equal_error(error))
        return concerned

    def _read_again(self) -> None:
        """Let the next turn read from the last record that arrived.

        A poll that fails for one partition may have moved the positions of others.
        """
        for share in self._shares:
            for partition in share.started:
                end = share.queue.fetched_to(partition)
                if end is not None:
                    share.seeks.setdefault(partition, end)


def equal_error(error: FatalError) -> FatalError:
    """Return an equal error without its traceback, which would keep its frames alive."""
    return type(error)(str(error), error.topics)


def _of(partitions: frozenset[Partition], topics: frozenset[str]) -> frozenset[Partition]:
    return frozenset(partition for partition in partitions if partition.topic in topics)
