"""Operations for which the Kafka client has no public call.

Fault: kafka-python can neither set quotas, nor stop a producer whose flush did not finish in time,
nor read one position without a loop over all partitions.
Effect: a limit could not be set; the thread of a closed producer would continue to run; a reader of
hundreds of partitions would spend milliseconds on each position.
Repair: each function of this module provides one of these operations with the client's private
names.
"""

from __future__ import annotations

from typing import Any

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer


def send_request(admin: KafkaAdminClient, request: object) -> Any:
    """Send a request of the Kafka protocol to any broker and return its answer."""
    return admin._manager.run(admin._manager.send, request)


def force_close(producer: KafkaProducer) -> None:
    """Stop the producer's thread; records that are not acknowledged may be lost."""
    producer._sender.force_close()


def partition_state(consumer: KafkaConsumer, partition: tuple[str, int]) -> Any:
    """Return the client's own record of an assigned partition, None if it is not assigned.

    Only a poll changes this record. Cost: O(1); the client's own ``position`` and ``assignment``
    have a cost proportional to the number of the consumer's partitions.
    """
    return consumer._subscription.assignment.get(partition)
