"""Operations for which the Kafka client has no public call.

Fault: kafka-python can neither stop a producer whose flush did not finish in time, nor read one
position without a loop over all partitions, nor say whether it is in its group, nor ask for the
metadata of several topics in one request.
Effect: the thread of a closed producer would continue to run; a reader of hundreds of partitions
would spend milliseconds on each position; a member whose coordinator does not answer would look
like one whose partitions are empty; each first send to a topic would wait 100 ms.
Repair: each function of this module provides one of these operations with the client's private
names.
"""

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
    """Return whether a consumer is a member of its group and knows the group's coordinator."""
    coordinator = consumer._coordinator
    return coordinator.coordinator_id is not None and not coordinator._generation.is_lost()
