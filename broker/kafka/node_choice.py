"""Which broker to ask what any of them could answer: not one that hangs.

kafka-python 3.0 asks a node without a request under way. Where every working node has one (a
consumer's fetch nearly always is), that is the node to which there is no connection, because it
has just been given up: metadata, coordinators and producer ids are then asked of a broker that
hangs, again and again, each time until the request times out, while those beside it are well.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any

from kafka import errors as kafka_errors

# Answers take milliseconds, and a fetch that waits for records a quarter of a second; a join can
# take longer, and then another node is only preferred.
_OWING_SECONDS = 1.0


class NodeChoice:
    """Takes the client's place where it chooses a node for a request that any can answer.

    A node *hangs* from a request or greeting that timed out until a new connection is greeted. It
    is chosen only where there is no other; so is one that has owed an answer for a second.

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
        """The node to ask; None where none may be asked now."""
        nodes = [broker.node_id for broker in self._manager.cluster.brokers()]
        random.shuffle(nodes)
        return min(filter(self._open, nodes), key=self._rank, default=None)

    def connection(self, node: object, *args: Any, **more: Any) -> Any:
        """The client's connection to a node, watched from its first use on.

        Raises:
            UnknownBrokerIdError: not listed, and the list is asked for again.
        """
        known = self._manager._conns.get(node)  # noqa: SLF001 - no public way
        try:
            connection = self._connect(node, *args, **more)
        except kafka_errors.UnknownBrokerIdError:
            # It leads again, and was away when the brokers were listed; the next list is due in
            # minutes, and until then the client would not find it.
            self._manager.cluster.request_update()
            raise
        if connection is not known:
            connection.init_future.add_callback(lambda _: self._hanging.discard(node))
            connection.close_future.add_errback(lambda error: self._lost(node, error))
        return connection

    def _lost(self, node: object, error: BaseException) -> None:
        if isinstance(error, (kafka_errors.RequestTimedOutError, kafka_errors.KafkaTimeoutError)):
            self._hanging.add(node)

    def _open(self, node: object) -> bool:
        connection = self._manager._conns.get(node)  # noqa: SLF001 - the same
        paused = connection is not None and connection.paused
        return not paused and not self._manager.connection_delay(node) > 0

    def _rank(self, node: object) -> tuple[bool, bool, bool, int]:
        connection = self._manager._conns.get(node)  # noqa: SLF001 - the same
        if connection is None:
            return node in self._hanging, False, True, 0
        oldest = next(iter(connection.in_flight_requests), None)
        owing = oldest is not None and self._now() - oldest[2] > _OWING_SECONDS
        waiting = len(connection.in_flight_requests)
        return node in self._hanging, owing, not connection.connected, waiting


def avoid_hanging(client: Any) -> None:
    """Have a client of kafka-python (consumer, administrator) ask nodes that answer."""
    manager = client._manager  # noqa: SLF001 - no public way
    choice = NodeChoice(manager)
    manager.least_loaded_node = choice.best
    manager.get_connection = choice.connection
