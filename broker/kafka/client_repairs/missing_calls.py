"""Operations for which the Kafka client has no public call.

Fault: kafka-python can neither set quotas, nor stop a producer whose flush ran out of time, nor
read one position without going over all partitions.
Effect: a limit could not be set; a closed producer's thread would keep running; a reader of
hundreds of partitions would spend milliseconds on each position.
Repair: each function here does one of these through the client's private parts.
"""

from __future__ import annotations

from typing import Any

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer


def send_request(admin: KafkaAdminClient, request: object) -> Any:
    """Send a request of the Kafka protocol to any broker and return its answer."""
    return admin._manager.run(admin._manager.send, request)


def force_close(producer: KafkaProducer) -> None:
    """Stop the producer's thread; what is not acknowledged is given up."""
    producer._sender.force_close()


def partition_state(consumer: KafkaConsumer, partition: tuple[str, int]) -> Any:
    """Return the client's state of an assigned partition, None if it is not assigned.

    Only a poll changes what is read here. O(1), where the client's own ``position`` and
    ``assignment`` take time for every partition of the consumer.
    """
    return consumer._subscription.assignment.get(partition)
