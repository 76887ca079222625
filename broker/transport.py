"""The protocols of a log broker: what each call does, when it may block, what it may raise.

All other packages use these protocols only. The two implementations, ``in_process`` (the
embedded default) and ``kafka``, pass the same contract tests.

As in Kafka, the *offset* of a record is its number in its partition; the *position* of a reader is
the offset of the next record that it reads; the *end* of a log is the offset that the next appended
record gets. Times are integer milliseconds since the epoch. A partition is identified by
``(topic, number)``.

Errors: every call may raise ``RecoverableError`` (the broker does not respond; the caller tries
again for a limited time) and ``FatalError`` (the broker responds, and to continue would be wrong: a
topic does not exist, a permission is missing, a position lies outside the log).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from calmstream.broker.records import Chunk, Damage, Headers, Partition, Record
from calmstream.common.errors import CalmstreamError

# Also exported from here, beside what is defined below.
__all__ = ["Chunk", "Damage", "Headers", "Partition", "Record"]


@dataclass(frozen=True, slots=True)
class TopicSpec:
    """A topic to create; ``settings`` have Kafka's names."""

    name: str
    partitions: int
    settings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TopicInfo:
    """An existing topic; ``settings`` include defaults.

    A topic that is deleted and created again has another ``id``.
    """

    name: str
    id: str
    partitions: int
    settings: Mapping[str, str]


class Delivery(Protocol):
    """The pending or completed result of one :meth:`Sink.send`."""

    def wait(self, timeout: float) -> int:
        """Block until the broker has acknowledged the record; return the record's offset.

        After a RecoverableError, such as a timeout, the record may or may not be in the log. After
        a FatalError (record too large, no such topic, no permission), a repeat cannot succeed.
        """

    def done(self) -> bool:
        """Return whether :meth:`wait` would return or raise at once. Never blocks."""


class Sink(Protocol):
    """Appends records. Safe for use from several threads."""

    def prepare(self, topics: Iterable[str]) -> None:
        """Request the metadata of topics, as the first send to each would; FatalError without."""

    def send(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        *,
        partition: int = 0,
        headers: Headers = (),
    ) -> Delivery:
        """Queue a record for sending; each partition gets its records in the order of the calls.

        May block, for a bounded time, until there is buffer space or the topic's metadata has come.
        """

    def close(self, timeout: float) -> None:
        """Wait up to ``timeout`` seconds for what is queued, and end. Never raises; idempotent."""


class Reading(Protocol):
    """What readers with and without a group do. Not safe for use from several threads."""

    @abstractmethod
    def seek(self, partition: Partition, offset: int) -> None:
        """Set the position of an assigned partition; a poll fails if it lies outside the log."""

    @abstractmethod
    def position(self, partition: Partition) -> int:
        """Return the offset from which the next poll reads; compaction may leave a gap there."""

    @abstractmethod
    def poll_chunks(self, timeout: float, max_records: int = 500) -> list[Chunk]:
        """Return records as columns, in the order of offsets for each partition.

        It waits ``timeout`` seconds for a record. FatalError: a position lies outside the log,
        which was trimmed or truncated.
        """

    def poll(self, timeout: float, max_records: int = 500) -> list[Record]:
        """Return what :meth:`poll_chunks` returns, record by record, which costs much more."""
        chunks = self.poll_chunks(timeout, max_records)
        return [record for chunk in chunks for record in chunk.records()]


class Reader(Reading, Protocol):
    """Reads partitions that its caller chooses, without a consumer group."""

    @abstractmethod
    def assign(self, partitions: Collection[Partition]) -> None:
        """Read exactly these partitions from now on; FatalError if one does not exist.

        Partitions that were assigned before keep their positions. Call :meth:`seek` for each new
        one before the next poll.
        """

    @abstractmethod
    def close(self) -> None:
        """Release all resources. Never raises; idempotent."""


@dataclass(frozen=True, slots=True)
class AssignmentChanges:
    """Changes of a group member's assignment since the last call.

    A partition in ``gone`` and in ``added`` was taken away first and then assigned again. A lost
    one, unlike a revoked one, may already have another owner.
    """

    revoked: frozenset[Partition] = frozenset()
    lost: frozenset[Partition] = frozenset()
    added: frozenset[Partition] = frozenset()

    @property
    def gone(self) -> frozenset[Partition]:
        return self.revoked | self.lost

    def then(self, later: AssignmentChanges) -> AssignmentChanges:
        return AssignmentChanges(
            self.revoked | later.revoked,
            self.lost | later.lost,
            (self.added - later.gone) | later.added,
        )


class GroupReader(Reading, Protocol):
    """A member of a consumer group.

    Newly assigned partitions start *paused*: the caller restores its state, seeks, then resumes.
    A poll also shows the group that this member is alive. The interval between two polls must be
    shorter than the session limit, even when all partitions are paused.
    """

    @abstractmethod
    def subscribe(self, topics: Iterable[str]) -> None:
        """Join the group for these topics; FatalError if a new one does not exist.

        A member that calls it again with other topics stays in the group and keeps its partitions
        of the topics that remain, except those that the group gives to other members.
        """

    @abstractmethod
    def joined(self) -> bool:
        """Return whether this is a member of its group and knows the group's coordinator.

        While the coordinator does not answer, polls return nothing, though other brokers answer.
        """

    @abstractmethod
    def take_changes(self) -> AssignmentChanges: ...

    @abstractmethod
    def assignment(self) -> frozenset[Partition]: ...

    @abstractmethod
    def pause(self, partitions: Collection[Partition]) -> None:
        """Stop returning records of these partitions; those not assigned are ignored."""

    @abstractmethod
    def resume(self, partitions: Collection[Partition]) -> None:
        """Return records of these partitions again; those not assigned are ignored.

        FatalError: :meth:`seek` was not called for a partition since it was assigned.
        """

    @abstractmethod
    def end_offset(self, partition: Partition) -> int | None:
        """Return the end of the log that the last fetch since the assignment reported, or None.

        The result can stay None until a record is appended, because the broker reports an end only
        once to a member, also if the member lost the partition in the meantime. A caller that needs
        the end calls :meth:`Topics.log_ends`.
        """

    @abstractmethod
    def commit(self, offsets: Mapping[Partition, int]) -> None:
        """Commit offsets for tools that show the lag, and for nothing else; ignores errors."""

    @abstractmethod
    def close(self, timeout: float) -> None:
        """Leave the group. Never raises; idempotent."""


class Topics(Protocol):
    """Administration of topics, safe for several threads; it ends with its connection.

    Each call blocks for at most the configured request timeout.
    """

    def create(self, specs: Sequence[TopicSpec]) -> list[str]:
        """Create the topics that do not exist; return their names."""

    def describe(
        self, names: Sequence[str], settings: Collection[str] | None = None
    ) -> dict[str, TopicInfo]:
        """Return the topics among ``names`` that exist, with these settings; None means all.

        Without any the call costs much less, and needs no permission to read settings.
        """

    def delete(self, names: Sequence[str]) -> None:
        """Delete the topics among ``names`` that exist."""

    def log_starts(self, partitions: Collection[Partition]) -> dict[Partition, int]:
        """Return the offset of each partition's oldest record, or the end of an empty one."""

    def log_ends(self, partitions: Collection[Partition]) -> dict[Partition, int]:
        """Return the offset after the last record of each partition."""

    def first_after(self, times: Mapping[Partition, int]) -> dict[Partition, int]:
        """Return the offset of each partition's first record whose time (ms) is above the given.

        A partition without such a record has no entry; a transaction marker counts as a record.
        """

    def owned(self, groups: Collection[str]) -> frozenset[Partition]:
        """Return the partitions that members of these consumer groups own.

        A member that has died owns its partitions until its session ends.
        """

    def alter(self, names: Sequence[str], settings: Mapping[str, str]) -> None:
        """Change these settings of existing topics; their other settings stay as they are."""


class Broker(Protocol):
    """The connection to one broker. It creates clients, which the caller closes.

    All callers of :meth:`topics` share one administrator, which only :meth:`close` closes.
    """

    def sink(self) -> Sink: ...

    def reader(self) -> Reader: ...

    def group_reader(self, group: str) -> GroupReader: ...

    def topics(self) -> Topics: ...

    def close(self) -> None:
        """Close all clients that are still open. Never raises; idempotent."""


class FailedDelivery:
    """A `Delivery` that failed before a client accepted it."""

    def __init__(self, error: CalmstreamError) -> None:
        self._error = error

    def wait(self, timeout: float) -> int:  # noqa: ARG002 - part of the protocol
        raise self._error

    def done(self) -> bool:
        return True
