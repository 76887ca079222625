"""Membership in a Kafka consumer group.

The Kafka client calls a rebalance listener on its own thread, while the caller waits in ``poll``.
The listener records the change. It pauses new partitions, so that the client does not fetch from
them, and sets a placeholder position, so that the client does not request committed offsets. After
the poll the caller takes the changes, and seeks and resumes the new partitions.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from typing import Any

from kafka import ConsumerRebalanceListener, KafkaConsumer, OffsetAndMetadata, TopicPartition

from calmstream.broker.kafka.assignor import QuickCooperativeAssignor
from calmstream.broker.kafka.client_repairs import repair_member
from calmstream.broker.kafka.client_repairs.members import forget_lost_partitions
from calmstream.broker.kafka.client_repairs.missing_calls import is_joined, partition_state
from calmstream.broker.kafka.limits import CLOSE_SECONDS, KafkaLimits, milliseconds
from calmstream.broker.kafka.readers import ConsumerBase, new_consumer
from calmstream.broker.kafka.topics import KafkaTopics
from calmstream.broker.kafka.translate import translated
from calmstream.broker.transport import AssignmentChanges, Partition
from calmstream.common.errors import FatalError

# The response to a heartbeat informs a member of a rebalance. The interval between two heartbeats
# therefore bounds the time until a rebalance begins.
_MAX_HEARTBEAT_SECONDS = 1.0
# A member that does not poll for this long loses its partitions.
_MAX_POLL_INTERVAL_MS = 300_000


def new_member(settings: dict[str, Any], limits: KafkaLimits, group: str) -> KafkaConsumer:
    heartbeat = min(limits.session_seconds / 3, _MAX_HEARTBEAT_SECONDS)
    consumer = new_consumer(
        settings,
        limits,
        group_id=group,
        partition_assignment_strategy=[QuickCooperativeAssignor],
        session_timeout_ms=milliseconds(limits.session_seconds),
        heartbeat_interval_ms=milliseconds(heartbeat),
        max_poll_interval_ms=_MAX_POLL_INTERVAL_MS,
    )
    repair_member(consumer)
    return consumer


class KafkaGroupReader(ConsumerBase):
    """A member of a group; see `GroupReader`."""

    def __init__(self, consumer: KafkaConsumer, topics: KafkaTopics) -> None:
        super().__init__(consumer)
        self._topics = topics
        self._notes = _Notes(consumer)
        self._subscribed: set[str] = set()

    def subscribe(self, topics: Iterable[str]) -> None:
        wanted = set(topics)
        # The check is a request, so topics that were checked before are not checked again.
        self._topics.partitions(wanted - self._subscribed)
        self._subscribed = wanted
        with translated("subscribing"):
            self._consumer.subscribe(sorted(wanted), listener=self._notes)

    def joined(self) -> bool:
        return is_joined(self._consumer)

    def take_changes(self) -> AssignmentChanges:
        return self._notes.take()

    def assignment(self) -> frozenset[Partition]:
        return frozenset(Partition(*where) for where in self._consumer.assignment())

    def seek(self, partition: Partition, offset: int) -> None:
        super().seek(partition, offset)
        self._notes.without_position.discard(partition)

    def position(self, partition: Partition) -> int:
        if partition in self._notes.without_position:
            raise FatalError(f"{partition}: no position yet, seek first")
        return super().position(partition)

    def pause(self, partitions: Collection[Partition]) -> None:
        self._consumer.pause(*self._assigned_of(partitions))

    def resume(self, partitions: Collection[Partition]) -> None:
        assigned = self._assigned_of(partitions)
        for where in assigned:
            if where in self._notes.without_position:
                raise FatalError(f"{Partition(*where)}: no position yet, seek first")
        self._consumer.resume(*assigned)

    def end_offset(self, partition: Partition) -> int | None:
        if partition_state(self._consumer, partition) is None:
            return None
        end = self._consumer.highwater(TopicPartition(*partition))
        return None if end is None else int(end)

    def commit(self, offsets: Mapping[Partition, int]) -> None:
        wanted = {
            TopicPartition(*partition): OffsetAndMetadata(offset, "", -1)
            for partition, offset in offsets.items()
        }
        if wanted and not self.closed:
            with suppress(Exception):  # nothing depends on a commit
                self._consumer.commit_async(wanted)

    def close(self, timeout: float = CLOSE_SECONDS) -> None:
        self._close(timeout)

    def _assigned_of(self, partitions: Collection[Partition]) -> list[TopicPartition]:
        wanted = {TopicPartition(*partition) for partition in partitions}
        return sorted(wanted & self._consumer.assignment())


class _Notes(ConsumerRebalanceListener):  # type: ignore[misc]  # the client has no types
    """Collects assignment changes. Called on the client's thread, but only during a poll.

    A partition is in ``without_position`` until the caller seeks in it.
    """

    def __init__(self, consumer: KafkaConsumer) -> None:
        self._consumer = consumer
        self._changes = AssignmentChanges()
        self.without_position: set[Partition] = set()

    def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        """Record new partitions; the client must not fetch them before the caller resumes them."""
        added = _as_partitions(assigned)
        for where in assigned:
            self._consumer.pause(where)
            self._consumer.seek(where, 0)
        self.without_position |= added
        self._changes = self._changes.then(AssignmentChanges(added=added))

    def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        self._note_gone(AssignmentChanges(revoked=_as_partitions(revoked)))

    def on_partitions_lost(self, lost: Collection[TopicPartition]) -> None:
        forget_lost_partitions(self._consumer)
        self._note_gone(AssignmentChanges(lost=_as_partitions(lost)))

    def _note_gone(self, change: AssignmentChanges) -> None:
        self.without_position -= change.gone
        self._changes = self._changes.then(change)

    def take(self) -> AssignmentChanges:
        changes, self._changes = self._changes, AssignmentChanges()
        return changes


def _as_partitions(partitions: Collection[TopicPartition]) -> frozenset[Partition]:
    return frozenset(Partition(*where) for where in partitions)
