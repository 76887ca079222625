"""What calmstream needs of a log broker, as contracts: when a call may block, what it may raise.

Everything above this package speaks these protocols only. Two implementations exist, held to one
contract suite: ``broker.in_process`` (the embedded default) and ``broker.kafka``.

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
"""Names and contents. Whoever reads the headers of strangers' records expects any names."""


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

    The broker stores some bytes that nobody can decode: it does not look into compressed records.
    They are returned as one record with ``damage``, so that a reader can go past them.

    Attributes:
        partition: where it lies.
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
    """An existing topic. ``id`` changes when a topic is deleted and made anew."""

    name: str
    id: str
    partitions: int
    settings: Mapping[str, str]


class Delivery(Protocol):
    """A send on its way."""

    def wait(self, timeout: float) -> int:
        """Block until the broker has acknowledged; the record's offset.

        Raises:
            RecoverableError: not acknowledged within ``timeout`` seconds, or the send failed in a
                way that a resend may cure. The record may or may not be in the log.
            FatalError: refused for good (too large, no such topic, no permission).
        """

    def done(self) -> bool:
        """Whether :meth:`wait` would return or raise at once. Never blocks."""


class Sink(Protocol):
    """Appends records. Safe for use from several threads."""

    def prepare(self, topics: Iterable[str]) -> None:
        """Learn beforehand what sends to these topics need to know, so that none blocks for it.

        Not needed for anything else: a first send asks by itself.

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
        up to the sink's configured limit for buffer space, and the first send to a topic for what
        there is to know about it; see :meth:`prepare`.
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
        """Read exactly these from now on; new ones must be sought before the next poll.

        Those read before keep their positions.

        Raises:
            FatalError: a partition does not exist.
        """

    def seek(self, partition: Partition, offset: int) -> None:
        """Set the position; does not check it against the log."""

    def position(self, partition: Partition) -> int:
        """Offset of the next record that poll will return, or skip as compacted away."""

    def poll(self, timeout: float, max_records: int = 500) -> list[Record]:
        """Records in offset order per partition; empty after ``timeout`` seconds without any.

        Raises:
            FatalError: a position lies outside the log (trimmed or truncated).
        """

    def close(self) -> None:
        """Release resources. Never raises; idempotent."""


@dataclass(frozen=True, slots=True)
class Changes:
    """What happened to a group member's assignment since it was last asked.

    ``revoked`` partitions were given up in good order; ``lost`` ones may already belong to another
    member. A partition can be gone and added again within one answer: gone comes first.
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
        """As :meth:`Reader.poll`, for assigned and not paused partitions; also the heartbeat.

        Must be called more often than the session limit even when everything is paused.
        """

    def take_changes(self) -> Changes:
        """Assignment changes since the last call. Never blocks."""

    def assignment(self) -> frozenset[Partition]:
        """What this member owns now."""

    def seek(self, partition: Partition, offset: int) -> None:
        """Set the position of an assigned partition."""

    def position(self, partition: Partition) -> int:
        """As :meth:`Reader.position`."""

    def pause(self, partitions: Collection[Partition]) -> None:
        """Stop returning records of these; polling goes on. Unassigned ones are ignored."""

    def resume(self, partitions: Collection[Partition]) -> None:
        """Undo :meth:`pause`. Unassigned ones are ignored.

        Raises:
            FatalError: one has not been sought since it was assigned.
        """

    def end_offset(self, partition: Partition) -> int | None:
        """Offset after the last record as fetches have shown it since the partition was assigned.

        None before the first time. That can last for as long as nothing is appended: to a member
        that lost a partition and got it back, the broker does not show an end again that it has
        shown before. Whoever needs to know asks :meth:`Topics.log_ends`.
        """

    def commit(self, offsets: Mapping[Partition, int]) -> None:
        """Commit for lag tools, best effort; nothing depends on it. Never raises or blocks long."""

    def close(self, timeout: float) -> None:
        """Leave the group. Never raises; idempotent."""


class Topics(Protocol):
    """Administration. Calls block up to the configured request timeout."""

    def create(self, specs: Sequence[TopicSpec]) -> list[str]:
        """Create the topics that do not exist; the names that were created."""

    def describe(self, names: Sequence[str]) -> dict[str, TopicInfo]:
        """The existing ones among ``names``, settings included."""

    def delete(self, names: Sequence[str]) -> None:
        """Delete the existing ones among ``names``."""

    def log_starts(self, partitions: Collection[Partition]) -> dict[Partition, int]:
        """Offset of the oldest record kept, or the end where there is none.

        Raises:
            FatalError: a partition does not exist.
        """

    def log_ends(self, partitions: Collection[Partition]) -> dict[Partition, int]:
        """Offset after the last record."""

    def trim(self, offsets: Mapping[Partition, int]) -> None:
        """Delete all records below the given offsets."""

    def alter(self, names: Sequence[str], settings: Mapping[str, str]) -> None:
        """Change these settings of existing topics; the others stay.

        Raises:
            FatalError: no such topic, or a setting or value that the broker refuses.
        """

    def close(self) -> None:
        """Release resources. Never raises; idempotent."""


class Broker(Protocol):
    """A way to reach one broker; hands out clients, each to be closed by its taker."""

    def sink(self) -> Sink:
        """A new sink."""

    def reader(self) -> Reader:
        """A new self-assigning reader."""

    def group_reader(self, group: str, *, member: str | None = None) -> GroupReader:
        """A new member of ``group``; ``member`` makes the membership static."""

    def topics(self) -> Topics:
        """A new administrator."""

    def close(self) -> None:
        """Close whatever was handed out and is still open. Never raises; idempotent."""
