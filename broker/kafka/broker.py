"""The connection to one Kafka cluster. It is checked when it is created, unless it is lazy."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from contextlib import closing
from typing import Any, TypeVar

from kafka import KafkaAdminClient
from kafka import errors as kafka_errors
from kafka.admin import (
    ACL,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    ResourcePattern,
    ResourceType,
)

from calmstream.broker.kafka.client_repairs import check_client_version, repair_admin
from calmstream.broker.kafka.client_repairs.connections import close_failed_start
from calmstream.broker.kafka.group_reader import KafkaGroupReader, new_member
from calmstream.broker.kafka.limits import KafkaLimits, milliseconds
from calmstream.broker.kafka.readers import KafkaReader, new_consumer
from calmstream.broker.kafka.sink import KafkaSink
from calmstream.broker.kafka.topics import KafkaTopics
from calmstream.broker.kafka.translate import translate, translated
from calmstream.broker.open_clients import OpenClients
from calmstream.broker.permissions import Permission
from calmstream.broker.security import SecurityConfig
from calmstream.common.errors import InvalidInput, RecoverableError

_Client = TypeVar("_Client")

# Longest pause between two attempts to connect to a broker, so that clients find it soon after it
# has restarted.
_RECONNECT_MAX_MS = 1000

# Number of requests that an administrator may have in flight to one broker. Many threads share it.
# Above this number, by default 5, the client refuses requests (NodeNotReadyError) or lets them time
# out.
_ADMIN_REQUESTS = 1000


def connect(
    bootstrap: str, security: SecurityConfig | None = None, *, lazy: bool = False, **limits: Any
) -> KafkaBroker:
    """Return a connection; a ``lazy`` one contacts the cluster when it is first needed."""
    check_client_version()
    servers = _servers(bootstrap)
    bounds = KafkaLimits(**limits)
    settings = {
        "bootstrap_servers": servers,
        "client_id": "calmstream",
        "bootstrap_timeout_ms": milliseconds(bounds.connect_seconds),
        "request_timeout_ms": milliseconds(bounds.request_seconds),
        "reconnect_backoff_max_ms": _RECONNECT_MAX_MS,
        **(security or SecurityConfig()).client_settings(),
    }
    broker = KafkaBroker(bootstrap, settings, bounds)
    if not lazy:
        broker.topics()
    return broker


class KafkaBroker:
    """Apache Kafka; see `Broker`. All but its readers is safe for several threads."""

    def __init__(self, bootstrap: str, settings: dict[str, Any], limits: KafkaLimits) -> None:
        self._bootstrap = bootstrap
        self._settings = settings
        self._limits = limits
        self._open = OpenClients()
        self._lock = threading.Lock()
        self._topics: KafkaTopics | None = None

    def sink(self) -> KafkaSink:
        topics = self.topics()
        sink = self._reach(lambda settings: KafkaSink(settings, self._limits, topics))
        return self._open.add(sink)

    def reader(self) -> KafkaReader:
        topics = self.topics()
        consumer = self._reach(lambda settings: new_consumer(settings, self._limits))
        return self._open.add(KafkaReader(consumer, topics))

    def group_reader(self, group: str) -> KafkaGroupReader:
        topics = self.topics()
        consumer = self._reach(lambda settings: new_member(settings, self._limits, group))
        return self._open.add(KafkaGroupReader(consumer, topics))

    def topics(self) -> KafkaTopics:
        """Return the administrator, with which clients look up numbers of partitions, too."""
        with self._lock:
            if self._topics is None:
                self._topics = KafkaTopics(self._admin(), self._limits.request_seconds)
            return self._topics

    def grant(self, principal: str, wanted: Collection[Permission]) -> None:
        """Grant permissions to a principal; it keeps those that it already has."""
        doing = f"granting permissions to {principal}"
        with closing(self._admin()) as admin, translated(doing, "ALTER on the cluster"):
            response = admin.create_acls([_rule(principal, item) for item in wanted])
            for error in response["failed"]:
                raise error

    def close(self) -> None:
        self._open.close()
        if self._topics is not None:
            self._topics.close()

    def _admin(self) -> KafkaAdminClient:
        admin = self._reach(
            lambda settings: KafkaAdminClient(
                **settings, max_in_flight_requests_per_connection=_ADMIN_REQUESTS
            )
        )
        repair_admin(admin)
        return admin

    def _reach(self, make: Callable[[dict[str, Any]], _Client]) -> _Client:
        try:
            # With these settings, what the constructor opens is closed if it fails.
            with close_failed_start() as settings:
                return make(self._settings | settings)
        except kafka_errors.KafkaTimeoutError as error:
            message = (
                f"no broker answers at {self._bootstrap} within {self._limits.connect_seconds:g} s"
            )
            protocol = self._settings["security_protocol"]
            if protocol != "PLAINTEXT":  # the client reports a refusal as a timeout, too
                message += f" over {protocol}; check the protocol, certificates and credentials"
            raise RecoverableError(message) from error
        except (kafka_errors.KafkaError, ValueError, OSError) as error:
            raise translate(error, f"reaching {self._bootstrap}") from error


def _servers(bootstrap: str) -> list[str]:
    servers = [server.strip() for server in bootstrap.split(",")]
    for server in servers:
        host, colon, port = server.rpartition(":")
        if not (host and colon and port.isdecimal() and 0 < int(port) < 1 << 16):
            raise InvalidInput(f"a bootstrap address must be HOST:PORT, not {server!r}")
    return servers


def _rule(principal: str, permission: Permission) -> ACL:
    literal, prefixed = ACLResourcePatternType.LITERAL, ACLResourcePatternType.PREFIXED
    pattern = ResourcePattern(
        ResourceType[permission.kind.upper()],
        permission.name,
        prefixed if permission.prefixed else literal,
    )
    operation = ACLOperation[permission.operation]
    return ACL(principal, "*", operation, ACLPermissionType.ALLOW, pattern)
