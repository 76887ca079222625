"""A client keeps asking a broker that does not answer.

Fault: for a request that any broker can answer, kafka-python prefers a node without requests under
way. Where every working node has one (a consumer's fetch nearly always is), that is the node whose
connection has just been given up. And a node that was away when the brokers were listed stays
unknown until the list is renewed, which takes minutes.
Effect: metadata, coordinators and producer ids are asked of the broker that hangs, again and again,
each time until the request times out, while other brokers would answer.
Repair: the choice is replaced. A node that hangs is chosen only where there is no other, and an
unknown node makes the client renew the list at once.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any

from kafka import errors as kafka_errors

# Answers take milliseconds, and a fetch that waits for records a quarter of a second. A join can
# take longer; then another node is merely preferred.
_OVERDUE_SECONDS = 1.0


class NodeChoice:
    """Chooses the node for a request that any node can answer.

    A node *hangs* from the moment when a request or a handshake timed out until the handshake of a
    new connection succeeds. It is chosen only where there is no other node, and so is a node with
    an answer that is overdue for a second.

    Args:
        manager: the connection manager of one client. All calls come on the client's own thread.
        now: monotonic seconds.
    """

    def __init__(self, manager: Any, now: Callable[[], float] = time.monotonic) -> None:
        self._manager = manager
        self._now = now
        self._hanging: set[object] = set()
        self._connect = manager.get_connection

    def best(self) -> object | None:
        """Return the node to ask, None where no node may be asked now."""
        nodes = [broker.node_id for broker in self._manager.cluster.brokers()]
        random.shuffle(nodes)
        return min(filter(self._open, nodes), key=self._rank, default=None)

    def connection(self, node: object, *args: Any, **more: Any) -> Any:
        """Return the client's connection to a node, and watch it from its first use on.

        Raises:
            UnknownBrokerIdError: the node is not listed; the list is being renewed.
        """
        existing = self._manager._conns.get(node)
        try:
            connection = self._connect(node, *args, **more)
        except kafka_errors.UnknownBrokerIdError:
            # The node was away when the brokers were listed, and leads a partition again. The
            # next list is due in minutes.
            self._manager.cluster.request_update()
            raise
        if connection is not existing:
            connection.init_future.add_callback(lambda _: self._hanging.discard(node))
            connection.close_future.add_errback(lambda error: self._lost(node, error))
        return connection

    def _lost(self, node: object, error: BaseException) -> None:
        if isinstance(error, (kafka_errors.RequestTimedOutError, kafka_errors.KafkaTimeoutError)):
            self._hanging.add(node)

    def _open(self, node: object) -> bool:
        connection = self._manager._conns.get(node)
        paused = connection is not None and connection.paused
        return not paused and not self._manager.connection_delay(node) > 0

    def _rank(self, node: object) -> tuple[bool, bool, bool, int]:
        connection = self._manager._conns.get(node)
        if connection is None:
            return node in self._hanging, False, True, 0
        oldest = next(iter(connection.in_flight_requests), None)
        overdue = oldest is not None and self._now() - oldest[2] > _OVERDUE_SECONDS
        waiting = len(connection.in_flight_requests)
        return node in self._hanging, overdue, not connection.connected, waiting


def avoid_hanging_nodes(client: Any) -> None:
    """Let a client (consumer, administrator, a producer's network client) ask nodes that answer."""
    manager = client._manager
    choice = NodeChoice(manager)
    manager.least_loaded_node = choice.best
    manager.get_connection = choice.connection
