"""The private names of the Kafka client that this package uses, and a check that they exist.

The distribution pins the client's exact version. The check is for an installation that overrides
the pin: without it a missing name would show as an ``AttributeError`` in the middle of a run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version

from calmstream.common.errors import FatalError

CLIENT_VERSION = "3.0.12"
"""Version of kafka-python that the repairs are written for; ``pyproject.toml`` pins the same."""

PRIVATE_NAMES: Mapping[str, tuple[str, ...]] = {
    "kafka.admin.client:KafkaAdminClient": ("_manager",),
    "kafka.cluster:ClusterMetadata": (
        "_partitions",
        "_topics",
        "brokers",
        "config",
        "failed_update",
        "leader_epoch_for_partition",
        "partitions_for_topic",
        "refresh_metadata",
        "request_update",
        "set_topics",
    ),
    "kafka.consumer.fetcher:FetchRequestData": ("metadata", "to_forget", "to_send"),
    "kafka.consumer.fetcher:FetchSessionHandler": (
        "build_next",
        "next_metadata",
        "session_partitions",
    ),
    "kafka.consumer.fetcher:Fetcher": (
        "PartitionRecords",
        "_completed_fetches",
        "_create_fetch_requests",
        "_fetchable_partitions",
        "_manager",
        "_maybe_update_current_leader",
        "_next_partition_records",
        "_paused_completed_fetches",
        "_paused_partition_records",
        "_session_handlers",
        "fetched_records",
        "maybe_validate_positions",
    ),
    "kafka.consumer.group:KafkaConsumer": (
        "_coordinator",
        "_fetcher",
        "_manager",
        "_subscription",
        "subscription",
    ),
    "kafka.consumer.subscription_state:SubscriptionState": (
        "_lock",
        "assigned_partitions",
        "assignment",
        "group_subscription",
        "has_all_fetch_positions",
        "is_paused",
        "maybe_validate_position_for_current_leader",
        "partitions_needing_reset",
        "partitions_needing_validation",
    ),
    "kafka.consumer.subscription_state:TopicPartitionState": (
        "awaiting_reset",
        "awaiting_validation",
        "has_valid_position",
        "is_fetchable",
        "is_reset_allowed",
        "is_validation_allowed",
        "position",
    ),
    "kafka.coordinator.assignors.sticky.sticky_assignor:StickyPartitionAssignor": (
        "member_assignment",
    ),
    "kafka.coordinator.consumer:ConsumerCoordinator": (
        "_assignment_snapshot",
        "_assignors",
        "_build_metadata_snapshot",
        "_cluster",
        "_join_task",
        "_manager",
        "_metadata_snapshot",
        "_perform_assignment",
        "_rebalance_protocol",
        "_subscription",
        "config",
        "join_group_async",
        "need_rejoin",
        "poll",
        "rejoining",
        "time_to_next_poll",
    ),
    "kafka.net.compat:KafkaNetClient": ("_manager", "connection_delay"),
    "kafka.net.connection:KafkaConnection": (
        "close_future",
        "connected",
        "in_flight_requests",
        "init_future",
        "paused",
    ),
    "kafka.net.inet:KafkaNetSocket": ("connect", "dns_lookup", "sock_connect"),
    "kafka.net.manager:KafkaConnectionManager": (
        "_build_transport",
        "_conns",
        "_net",
        "call_soon",
        "cluster",
        "config",
        "connection_delay",
        "get_connection",
        "least_loaded_node",
        "run",
        "send",
        "ssl_enabled",
    ),
    "kafka.net.selector:NetworkSelector": ("wait_read", "wait_write"),
    "kafka.net.transport:KafkaSSLTransport": ("_net", "_sock", "handshake"),
    "kafka.net.transport:KafkaTCPTransport": ("_sock", "handshake"),
    "kafka.producer.kafka:KafkaProducer": ("_metadata", "_sender", "_transaction_manager"),
    "kafka.producer.sender:Sender": ("_client", "add_topic", "force_close"),
    "kafka.producer.transaction_manager:InitProducerIdHandler": (
        "fatal_error",
        "handle_response",
        "is_retry",
        "on_complete",
    ),
    "kafka.producer.transaction_manager:TransactionManager": (
        "ERROR_CLASS_FATAL",
        "ERROR_CLASS_NEEDS_EPOCH_BUMP",
        "_FATAL_ERRORS",
        "_current_state",
        "_enqueue_request",
        "_lock",
        "classify_batch_error",
        "reset_producer_id",
    ),
    "kafka.producer.transaction_manager:TransactionState": ("READY", "UNINITIALIZED"),
    "kafka.record.memory_records:MemoryRecords": ("_buffer",),
}
"""The client's classes, as ``module:class``, each with the attribute names that the repairs use.

Names without an underscore are listed if the client's documentation does not guarantee them.
"""


def check_private_names(wanted: Mapping[str, tuple[str, ...]] = PRIVATE_NAMES) -> None:
    """Check that the installed client has every private name that the repairs use.

    No connection is needed. Cost: some tens of microseconds once the client is imported.

    Raises:
        FatalError: a name is missing; the message states the installed and the expected version.
    """
    for path, names in wanted.items():
        module, _, name = path.partition(":")
        try:
            owner = getattr(import_module(module), name)
        except (ImportError, AttributeError):
            raise _missing(path.replace(":", ".")) from None
        for attribute in names:
            if not hasattr(owner, attribute) and attribute not in _instance_names(owner):
                raise _missing(f"{path.replace(':', '.')}.{attribute}")


def _instance_names(owner: type) -> Iterator[str]:
    """Yield all names that the constructors of a class and its bases use.

    The attributes that a constructor sets are among them; an instance is not needed.
    """
    for base in owner.__mro__:
        code = getattr(vars(base).get("__init__"), "__code__", None)
        if code is not None:
            yield from code.co_names


def _missing(what: str) -> FatalError:
    try:
        found = version("kafka-python")
    except PackageNotFoundError:
        found = "of an unknown version"
    return FatalError(
        f"the installed Kafka client kafka-python {found} lacks {what}, expected version "
        f"{CLIENT_VERSION}: pip install 'kafka-python=={CLIENT_VERSION}'"
    )
