"""Reading from Apache Kafka: the common part of all readers, and the reader without a group."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from typing import Any

from kafka import KafkaConsumer, TopicPartition

from calmstream.broker.kafka.client_repairs import repair_consumer
from calmstream.broker.kafka.client_repairs.missing_calls import partition_state
from calmstream.broker.kafka.limits import KafkaLimits, milliseconds
from calmstream.broker.kafka.topics import KafkaTopics
from calmstream.broker.kafka.translate import translated
from calmstream.broker.transport import Chunk, Partition, Reading
from calmstream.common.errors import FatalError, MissingTopic

# Maximum sizes of one fetch response and of its part for one partition. They bound the memory of a
# reader, however many records wait in the log. Two partitions can fill a response, so that a reader
# of few partitions needs no more requests than a reader of many. A record larger than these sizes
# is still sent, alone in its response (KIP-74).
_FETCH_BYTES = 4 << 20
_PARTITION_FETCH_BYTES = 2 << 20


def new_consumer(settings: dict[str, Any], limits: KafkaLimits, **more: Any) -> KafkaConsumer:
    """Return a consumer that does not commit, reset offsets or create topics by itself."""
    consumer = KafkaConsumer(
        **settings,
        enable_auto_commit=False,
        auto_offset_reset="none",
        allow_auto_create_topics=False,
        fetch_max_bytes=_FETCH_BYTES,
        max_partition_fetch_bytes=_PARTITION_FETCH_BYTES,
        fetch_max_wait_ms=milliseconds(limits.fetch_wait_seconds),
        **more,
    )
    repair_consumer(consumer)
    return consumer


class ConsumerBase(Reading):
    """The operations that both kinds of reader have."""

    def __init__(self, consumer: KafkaConsumer) -> None:
        self._consumer = consumer
        self.closed = False

    def seek(self, partition: Partition, offset: int) -> None:
        state = self._state(partition)
        if offset < 0:
            raise FatalError(f"{partition}: cannot seek to {offset}")
        # The client's own method has a cost proportional to the number of its partitions.
        with translated(f"seeking in {partition}"):
            state.seek(offset)

    def position(self, partition: Partition) -> int:
        position = self._state(partition).position
        if position is None:
            raise FatalError(f"{partition}: no position yet, seek first")
        return int(position.offset)

    def poll_chunks(self, timeout: float, max_records: int = 500) -> list[Chunk]:
        if self.closed:
            raise FatalError("the reader is closed")
        with translated(self._reading, "READ"):
            fetched = self._consumer.poll(timeout_ms=milliseconds(timeout), max_records=max_records)
        # The repairs let the client return our chunks in place of its own records.
        return [chunk for chunks in fetched.values() for chunk in chunks]

    def _reading(self) -> str:
        topics = sorted({where.topic for where in self._consumer.assignment()})
        return f"reading {', '.join(topics[:2]) or 'nothing yet'}"

    def _state(self, partition: Partition) -> Any:
        state = partition_state(self._consumer, partition)
        if state is None:
            raise FatalError(f"{partition} is not assigned to this reader")
        return state

    def _close(self, seconds: float) -> None:
        if not self.closed:
            self.closed = True
            with suppress(Exception):
                self._consumer.close(autocommit=False, timeout_ms=milliseconds(seconds))


class KafkaReader(ConsumerBase):
    """Reads partitions that its caller chooses; see `Reader`."""

    def __init__(self, consumer: KafkaConsumer, topics: KafkaTopics) -> None:
        super().__init__(consumer)
        self._topics = topics
        self._assigned: frozenset[Partition] = frozenset()

    def assign(self, partitions: Collection[Partition]) -> None:
        # Each check is a request, so partitions that are being read are not checked again.
        new = set(partitions) - self._assigned
        counts = self._topics.partitions({p.topic for p in new})
        for topic, number in sorted(new):
            if not 0 <= number < counts[topic]:
                raise MissingTopic(f"partition {topic}[{number}] does not exist", [topic])
        with translated("assigning partitions"):
            self._consumer.assign([TopicPartition(*partition) for partition in partitions])
        self._assigned = frozenset(partitions)

    def close(self) -> None:
        self._close(1.0)
