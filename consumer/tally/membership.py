"""A worker's membership of its consumer group: polls, assignment changes, pauses, session limit."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from calmstream.broker.transport import AssignmentChanges, Chunk, GroupReader, Partition
from calmstream.common.errors import FatalError, RecoverableError
from calmstream.consumer.runtime.context import StopRequested, TallyContext
from calmstream.consumer.runtime.retry import RetryBudget

# Time between two polls that only keep the membership alive.
_BEAT_SECONDS = 1.0
# Pause after a failed poll.
_RETRY_PAUSE = 0.1


class Membership:
    """Wraps a group reader, so that it returns only records of *active* partitions.

    A partition is active from :meth:`activate` until the group takes it away, which also drops what
    was polled before. Partitions beyond the number that the plan states are ignored.
    """

    def __init__(self, reader: GroupReader, context: TallyContext) -> None:
        self.reader = reader
        self._context = context
        self._clock = context.clock
        self._config = context.config
        self._active: set[Partition] = set()
        self._changes = AssignmentChanges()
        self._backlog: list[Chunk] = []
        self._blocked = False
        self._last_poll = self._clock.monotonic()
        self._retries = RetryBudget(self._clock, self._config.retry_seconds)

    def join(self, topics: Collection[str]) -> None:
        self.reader.subscribe(topics)
        self._last_poll = self._clock.monotonic()

    def poll(self) -> list[Chunk]:
        """Return records of active partitions; a poll also shows the group that it is alive."""
        self._receive(0.0 if self._backlog else self._config.poll_seconds)
        chunks, self._backlog = self._backlog, []
        return chunks

    def keep_alive(self) -> None:
        """Keep membership and health alive in a long operation: poll, and read no records.

        Active partitions are paused meanwhile; the reader pauses new ones itself.
        """
        self._context.health.turned()
        if self._clock.monotonic() - self._last_poll < _BEAT_SECONDS:
            return
        self.reader.pause(self._active)
        self._receive(0.0)
        if not self._blocked:
            self.reader.resume(self._active)

    def keep_alive_or_stop(self) -> None:
        """Keep alive, or end the operation by an error if the worker was asked to stop."""
        if self._context.stop.is_set():
            raise StopRequested
        self.keep_alive()

    def guard(self) -> None:
        seconds = self._clock.monotonic() - self._last_poll
        if seconds > self._config.session_seconds:
            raise FatalError(
                f"no poll for {seconds:.0f} s, the session is {self._config.session_seconds:g} s: "
                "others may own the partitions, so nothing more is written; start again"
            )

    def take_changes(self) -> AssignmentChanges:
        changes, self._changes = self._changes, AssignmentChanges()
        return changes

    def activate(self, offsets: Mapping[Partition, int]) -> frozenset[Partition]:
        """Start reading restored partitions at these offsets; return those that are still owned."""
        # A partition that was taken away and assigned again must be restored once more.
        owned = self.reader.assignment() - self._changes.gone
        ready = frozenset(partition for partition in offsets if partition in owned)
        for partition in ready:
            self.reader.seek(partition, offsets[partition])
        self._active |= ready
        if not self._blocked:
            self.reader.resume(ready)
        return ready

    def block(self, blocked: bool) -> None:
        """Pause reading of all active partitions, or resume it; polls continue."""
        if blocked != self._blocked:
            self._blocked = blocked
            change = self.reader.pause if blocked else self.reader.resume
            change(self._active)

    def is_active(self, partition: Partition) -> bool:
        """Return whether a partition is active; every poll can change the answer."""
        return partition in self._active

    def _receive(self, timeout: float) -> None:
        try:
            chunks = self.reader.poll_chunks(timeout, self._config.poll_records)
        except RecoverableError as error:
            self._retries.note_failure("the broker", error)
            self._clock.sleep(_RETRY_PAUSE)
            chunks = []
        else:
            self._retries.succeeded()
            self._last_poll = self._clock.monotonic()
        self._note_changes()
        self._backlog += [chunk for chunk in chunks if chunk.partition in self._active]

    def _note_changes(self) -> None:
        changes = self.reader.take_changes()
        changed = changes.gone | changes.added
        if not changed:
            return
        planned = frozenset(p for p in changes.added if p.number < self._context.plan.partitions)
        self._changes = self._changes.then(replace(changes, added=planned))
        self._active -= changed
        self._backlog = [c for c in self._backlog if c.partition not in changed]
