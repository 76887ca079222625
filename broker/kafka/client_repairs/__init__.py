"""Repairs of the Kafka client, kafka-python: all uses of its private names are in this package.

One module holds one repair. Its docstring states the fault of the client, the effect of the fault,
and the repair; ``docs/upstream`` has a report for its maintainers. For each module, a test
``test_without_the_repair_...`` in ``tests/unit/broker/client_repairs`` shows the fault. When it
fails after an update of the client, the fault is gone: delete the module, its line here, its report
and its test.

`client_version` refuses another version of the client.
"""

from __future__ import annotations

from typing import Any

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer

from calmstream.broker.kafka.client_repairs.begun_joins import complete_begun_joins
from calmstream.broker.kafka.client_repairs.busy_waiting import pause_while_connecting
from calmstream.broker.kafka.client_repairs.expired_batches import request_new_id_after_expiry
from calmstream.broker.kafka.client_repairs.finished_joins import keep_finished_joins
from calmstream.broker.kafka.client_repairs.hanging_nodes import avoid_hanging_nodes
from calmstream.broker.kafka.client_repairs.parked_records import return_parked_records
from calmstream.broker.kafka.client_repairs.producer_ids import retry_id_requests
from calmstream.broker.kafka.client_repairs.reads_during_joins import read_during_joins
from calmstream.broker.kafka.client_repairs.refused_records import survive_refused_records
from calmstream.broker.kafka.client_repairs.stopped_refreshes import keep_refreshing
from calmstream.broker.kafka.client_repairs.undecodable_batches import use_own_decoder


def repair_admin(admin: KafkaAdminClient) -> None:
    """Apply the repairs that an administrator needs."""
    avoid_hanging_nodes(admin)
    keep_refreshing(admin)


def repair_consumer(consumer: KafkaConsumer) -> None:
    avoid_hanging_nodes(consumer)
    keep_refreshing(consumer)
    use_own_decoder(consumer)
    return_parked_records(consumer)


def repair_member(consumer: KafkaConsumer) -> None:
    """Apply the further repairs that a consumer in a group needs."""
    keep_finished_joins(consumer)
    complete_begun_joins(consumer)
    read_during_joins(consumer)


class RepairedProducer(KafkaProducer):  # type: ignore[misc]  # the client has no types
    """An idempotent producer with all repairs.

    The client's constructor starts a thread, which asks for a producer id at once. The repairs are
    therefore made on the producer's parts as soon as the constructor sets them.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "_transaction_manager" and value is not None:
            survive_refused_records(value)
            request_new_id_after_expiry(value)
            retry_id_requests(value)
        elif name == "_sender" and value is not None:
            pause_while_connecting(value._client)
            avoid_hanging_nodes(value._client)
            keep_refreshing(value._client)
        super().__setattr__(name, value)
