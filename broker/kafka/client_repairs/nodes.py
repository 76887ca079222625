"""Repairs of what a client knows of its cluster; docs/upstream explains each fault.

A *node* is the client's name of a broker.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable
from typing import Any

from kafka import errors as kafka_errors

_LOG = logging.getLogger(__name__)

# A response takes milliseconds; a fetch that waits for records takes a quarter of a second. A group
# join can take longer than this limit; the only effect is that another node is preferred.
_OVERDUE_SECONDS = 1.0


class NodeChoice:
    """Chooses the node for a request that any node can answer.

    Fault: the client prefers a node without a pending request, so one that does not answer, whose
    connection it has just closed; and it never uses the bootstrap addresses again.

    A node *hangs* from the moment when a request or a handshake timed out until the handshake of a
    new connection succeeds. A node that hangs, or that has not answered a request for more than a
    second, is chosen only if there is no other. While all listed nodes fail, the bootstrap
    addresses are tried too; their names are resolved at each attempt.
    """

    def __init__(self, manager: Any, now: Callable[[], float] = time.monotonic) -> None:
        self._manager = manager
        self._now = now
        self._hanging: set[object] = set()
        self._connect = manager.get_connection

    def best(self) -> object | None:
        cluster = self._manager.cluster
        nodes = [broker.node_id for broker in cluster.brokers()]
        if nodes and all(self._failing(node) for node in nodes):
            nodes += [broker.node_id for broker in cluster.bootstrap_brokers()]
        random.shuffle(nodes)
        return min(filter(self._open, nodes), key=self._rank, default=None)

    def connection(self, node: object, *args: Any, **more: Any) -> Any:
        """Return the client's connection to a node; observe a new connection for timeouts."""
        existing = self._manager._conns.get(node)
        try:
            connection = self._connect(node, *args, **more)
        except kafka_errors.UnknownBrokerIdError:
            # The node was down when the brokers were listed, and now leads a partition again.
            # Without this request the next list would come only after minutes.
            self._manager.cluster.request_update()
            raise
        if connection is not existing:
            connection.init_future.add_callback(lambda _: self._hanging.discard(node))
            connection.close_future.add_errback(lambda error: self._lost(node, error))
        return connection

    def _lost(self, node: object, error: BaseException) -> None:
        if isinstance(error, (kafka_errors.RequestTimedOutError, kafka_errors.KafkaTimeoutError)):
            self._hanging.add(node)

    def _failing(self, node: object) -> bool:
        return node in self._hanging or node in self._manager._backoff

    def _open(self, node: object) -> bool:
        connection = self._manager._conns.get(node)
        paused = connection is not None and connection.paused
        return not paused and not self._manager.connection_delay(node) > 0

    def _rank(self, node: object) -> tuple[bool, bool, int, bool, int]:
        """Return the sort key of a node; the smallest is the best choice."""
        connection = self._manager._conns.get(node)
        failures, *_ = self._manager._backoff.get(node, (0,))
        if connection is None:
            return node in self._hanging, False, failures, True, 0
        # In the order of sending: (id, future, sent at, ...).
        sent_at = next((one[2] for one in connection.in_flight_requests), None)
        overdue = sent_at is not None and self._now() - sent_at > _OVERDUE_SECONDS
        waiting = len(connection.in_flight_requests)
        return node in self._hanging, overdue, failures, not connection.connected, waiting


def avoid_hanging_nodes(client: Any) -> None:
    manager = client._manager
    choice = NodeChoice(manager)
    manager.least_loaded_node = choice.best
    manager.get_connection = choice.connection


def keep_refreshing(client: Any) -> None:
    """Let an error of any kind fail one refresh of the metadata only.

    Fault: other errors than the client's own end the refreshes silently, such as the one for a set
    of topics that the caller's thread changes meanwhile. New topics and leaders stay unknown then.
    """
    cluster = client._manager.cluster
    refresh = cluster.refresh_metadata

    async def refresh_or_fail(*arguments: Any, **more: Any) -> None:
        try:
            await refresh(*arguments, **more)
        except kafka_errors.KafkaError:
            raise
        except Exception as error:
            _LOG.warning("a refresh of the metadata failed and is repeated", exc_info=True)
            failure = kafka_errors.KafkaError(f"refreshing metadata: {error!r}")
            cluster.failed_update(failure)
            cluster.request_update()
            raise failure from error

    cluster.refresh_metadata = refresh_or_fail
