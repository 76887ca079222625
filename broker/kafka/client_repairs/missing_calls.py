"""Operations for which the Kafka client has no public call; docs/upstream has their reasons."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kafka import KafkaConsumer, KafkaProducer


def force_close(producer: KafkaProducer) -> None:
    """Stop the producer's thread; records that are not acknowledged may be lost."""
    producer._sender.force_close()


def announce_topics(producer: KafkaProducer, topics: Iterable[str]) -> None:
    """Let the producer's next request for metadata ask for these topics too. Does not wait."""
    for topic in topics:
        producer._sender.add_topic(topic)


def partition_state(consumer: KafkaConsumer, partition: tuple[str, int]) -> Any:
    """Return the client's own record of an assigned partition, None if it is not assigned.

    Only a poll changes this record. Cost: O(1); the client's own ``position`` and ``assignment``
    have a cost proportional to the number of the consumer's partitions.
    """
    return consumer._subscription.assignment.get(partition)


def is_joined(consumer: KafkaConsumer) -> bool:
    coordinator = consumer._coordinator
    return coordinator.coordinator_id is not None and not coordinator._generation.is_lost()
