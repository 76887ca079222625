"""The protocols of a log broker: what each call does, when it may block, what it may raise.

All other packages use these protocols only. The two implementations, ``broker.in_process`` (the
embedded default) and ``broker.kafka``, pass the same contract tests.

An *offset* is always the next position to read or to be written, as in Kafka. Times are integer
milliseconds since the epoch. A partition is named ``(topic, number)``.

Errors: every call may raise ``RecoverableError`` (the broker does not answer, try again within a
budget) and ``FatalError`` (the broker answers, and going on would be wrong: a topic that does not
exist, no permission, a position outside the log).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

Headers = tuple[tuple[str, bytes], ...]
"""Names and contents; records of unknown senders can have any names."""


class Partition(NamedTuple):
    """One partition of a topic."""

    topic: str
    number: int

    def __str__(self) -> str:
        return f"{self.topic}[{self.number}]"


@dataclass(frozen=True, slots=True)
class Damage:
    """Why some records of the log could not be decoded.

    Attributes:
        first_offset: of the records concerned.
        records: how many there are, as their sender stated.
        why: one line; a function of the bytes in the log.
    """

    first_offset: int
    records: int
    why: str


@dataclass(frozen=True, slots=True)
class Record:
    """One record as read from the log, or several that could not be decoded.

    A broker also stores bytes that cannot be decoded, because it does not check compressed records.
    They are returned as one record with ``damage``, so that a reader can skip them.

    Attributes:
        partition: the partition that holds it.
        offset: its position there; with damage that of the last one.
        timestamp: milliseconds since the epoch.
        append_time: whether the broker set the timestamp (LogAppendTime) or the sender did.
        key: bytes or None; None with damage.
        value: bytes, or None for a tombstone; with damage the bytes that could not be decoded.
        headers: in the order of sending; empty where they could not be decoded.
        damage: None for a record that was decoded.
    """

    partition: Partition
    offset: int
    timestamp: int
    append_time: bool
    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    damage: Damage | None = None


@dataclass(frozen=True, slots=True)
class TopicSpec:
    """A topic to create: replication is the broker's default unless given.

    ``settings`` are Kafka topic settings by their Kafka names with string values.
    """

    name: str
    partitions: int
    settings: Mapping[str, str] = field(default_factory=dict)
    replication: int = -1


@dataclass(frozen=True, slots=True)
class TopicInfo:
    """An existing topic. ``id`` changes when a topic is deleted and created again."""

    name: str
    id: str
    partitions: int
    settings: Mapping[str, str]


class Delivery(Protocol):
    """A send that has been handed over."""

    def wait(self, timeout: float) -> int:
        """Block until the broker has acknowledged; return the record's offset.

        Raises:
            RecoverableError: not acknowledged within ``timeout`` seconds, or the send failed in a
                way that a resend may cure. The record may or may not be in the log.
            FatalError: refused for good (too large, no such topic, no permission).
        """

    def done(self) -> bool:
        """Return whether :meth:`wait` would return or raise at once. Never blocks."""


class Sink(Protocol):
    """Appends records. Safe for use from several threads."""

    def prepare(self, topics: Iterable[str]) -> None:
        """Request the metadata of topics, so that later sends to them do not block for it.

        Optional: the first send to a topic requests it otherwise.

        Raises:
            FatalError: a topic does not exist.
        """

    def send(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        *,
        partition: int | None = None,
        headers: Headers = (),
    ) -> Delivery:
        """Hand a record over; order per partition is the order of the calls.

        Without ``partition`` it is murmur2(key) mod the partition count, as Kafka does. May block
        up to the sink's configured limit for buffer space, and the first send to a topic for its
        metadata; see :meth:`prepare`.
        """

    def flush(self, timeout: float) -> None:
        """Block until everything handed over is acknowledged or has failed.

        Raises:
            RecoverableError: not within ``timeout`` seconds.
        """

    def close(self, timeout: float) -> None:
        """Flush within ``timeout`` seconds and release resources. Never raises; idempotent."""


class Reader(Protocol):
    """Reads partitions that it assigns to itself: restores, the publisher, subscribers.

    Not safe for use from several threads.
    """

    def assign(self, partitions: Collection[Partition]) -> None:
        """Read exactly these partitions; new ones must be sought before the next poll.

        Partitions that were read before keep their positions.

        Raises:
            FatalError: a partition does not exist.
        """

    def seek(self, partition: Partition, offset: int) -> None:
        """Set the position, without a check against the log."""

    def position(self, partition: Partition) -> int:
        """Return the offset of the next record that poll returns, or skips after compaction."""

    def poll(self, timeout: float, max_records: int = 500) -> list[Record]:
        """Return records in offset order per partition; none after ``timeout`` seconds.

        Raises:
            FatalError: a position lies outside the log (trimmed or truncated).
        """

    def close(self) -> None:
        """Release all resources. Never raises; idempotent."""


@dataclass(frozen=True, slots=True)
class Changes:
    """Changes of a group member's assignment since the last call.

    The member gave up ``revoked`` partitions itself; ``lost`` ones may already belong to another
    member. A partition that is both gone and added was lost first and then assigned again.
    """

    revoked: frozenset[Partition] = frozenset()
    lost: frozenset[Partition] = frozenset()
    added: frozenset[Partition] = frozenset()

    @property
    def gone(self) -> frozenset[Partition]:
        """Revoked or lost."""
        return self.revoked | self.lost


class GroupReader(Protocol):
    """A member of a consumer group. Not safe for use from several threads.

    Newly assigned partitions start *paused*: the caller restores its state, seeks, then resumes.
    """

    def subscribe(self, topics: Iterable[str]) -> None:
        """Join the group for these topics; the assignment comes with polls.

        Raises:
            FatalError: a topic does not exist.
        """

    def poll(self, timeout: float, max_records: int = 500) -> list[Record]:
        """Return records as :meth:`Reader.poll`, of assigned partitions that are not paused.

        It is also the heartbeat: it must be called more often than the session limit, even when
        all partitions are paused.
        """

    def take_changes(self) -> Changes:
        """Return the assignment changes since the last call. Never blocks."""

    def assignment(self) -> frozenset[Partition]:
        """Return the partitions that this member owns."""

    def seek(self, partition: Partition, offset: int) -> None:
        """Set the position of an assigned partition."""

    def position(self, partition: Partition) -> int:
        """Return the position as :meth:`Reader.position`."""

    def pause(self, partitions: Collection[Partition]) -> None:
        """Stop returning records of these partitions; unassigned ones are ignored."""

    def resume(self, partitions: Collection[Partition]) -> None:
        """Undo :meth:`pause`. Unassigned ones are ignored.

        Raises:
            FatalError: one has not been sought since it was assigned.
        """

    def end_offset(self, partition: Partition) -> int | None:
        """Return the end of the log, as fetches have reported it since the partition was assigned.

        None before the first report. That can last until a record is appended: to a member that
        lost a partition and got it back, the broker does not repeat an end that it has reported.
        Callers that need the end use :meth:`Topics.log_ends`.
        """

    def commit(self, offsets: Mapping[Partition, int]) -> None:
        """Commit offsets for lag tools only, best effort. Never raises or blocks long."""

    def close(self, timeout: float) -> None:
        """Leave the group. Never raises; idempotent."""


class Topics(Protocol):
    """Administration. Calls block up to the configured request timeout."""

    def create(self, specs: Sequence[TopicSpec]) -> list[str]:
        """Create the topics that do not exist; return their names."""

    def describe(self, names: Sequence[str]) -> dict[str, TopicInfo]:
        """Return the topics among ``names`` that exist, with their settings."""

    def delete(self, names: Sequence[str]) -> None:
        """Delete the topics among ``names`` that exist."""

    def log_starts(self, partitions: Collection[Partition]) -> dict[Partition, int]:
        """Return the offset of the oldest record of each partition, or the end of an empty one.

        Raises:
            FatalError: a partition does not exist.
        """

    def log_ends(self, partitions: Collection[Partition]) -> dict[Partition, int]:
        """Return the offset after the last record of each partition."""

    def trim(self, offsets: Mapping[Partition, int]) -> None:
        """Delete all records below the given offsets."""

    def alter(self, names: Sequence[str], settings: Mapping[str, str]) -> None:
        """Change these settings of existing topics; the others stay.

        Raises:
            FatalError: no such topic, or a setting or value that the broker refuses.
        """

    def close(self) -> None:
        """Release all resources. Never raises; idempotent."""


class Broker(Protocol):
    """The connection to one broker; it makes clients, which the caller closes."""

    def sink(self) -> Sink:
        """Return a new sink."""

    def reader(self) -> Reader:
        """Return a new self-assigning reader."""

    def group_reader(self, group: str, *, member: str | None = None) -> GroupReader:
        """Return a new member of ``group``; ``member`` makes the membership static."""

    def topics(self) -> Topics:
        """Return a new administrator."""

    def close(self) -> None:
        """Close all clients that are still open. Never raises; idempotent."""
