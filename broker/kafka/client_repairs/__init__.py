"""Repairs of the Kafka client, kafka-python: all uses of its private names are in this package.

One function makes one repair. ``docs/upstream`` has a report of its fault for the maintainers, and
a test ``test_without_the_repair_...`` in ``tests/unit/broker/client_repairs`` shows it. When that
test fails after an update of the client, the fault is gone: delete function, report and test.
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

from kafka import KafkaAdminClient, KafkaConsumer

from calmstream.broker.kafka.client_repairs.consumers import return_parked_records, use_own_decoder
from calmstream.broker.kafka.client_repairs.members import (
    complete_begun_joins,
    keep_finished_joins,
    read_during_joins,
)
from calmstream.broker.kafka.client_repairs.nodes import avoid_hanging_nodes, keep_refreshing
from calmstream.common.errors import FatalError

CLIENT_VERSION = "3.0.12"
"""Version of kafka-python that the repairs are written for; ``pyproject.toml`` pins the same."""


def check_client_version() -> None:
    """Refuse another version of the client, which may lack a private name."""
    try:
        found = version("kafka-python")
    except PackageNotFoundError:
        found = "of an unknown version"
    if found != CLIENT_VERSION:
        raise FatalError(
            f"the installed Kafka client is kafka-python {found}, expected version "
            f"{CLIENT_VERSION}: pip install 'kafka-python=={CLIENT_VERSION}'"
        )


def repair_admin(admin: KafkaAdminClient) -> None:
    avoid_hanging_nodes(admin)
    keep_refreshing(admin)


def repair_consumer(consumer: KafkaConsumer) -> None:
    avoid_hanging_nodes(consumer)
    keep_refreshing(consumer)
    use_own_decoder(consumer)
    return_parked_records(consumer)


def repair_member(consumer: KafkaConsumer) -> None:
    keep_finished_joins(consumer)
    complete_begun_joins(consumer)
    read_during_joins(consumer)
