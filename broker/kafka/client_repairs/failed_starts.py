"""Repair of a client whose constructor fails.

Fault: kafka-python opens sockets and starts a thread before it contacts the cluster. If no broker
answers, the constructor raises an error and leaves them open.
Effect: each attempt to connect during an outage costs one thread and about four file descriptors.
A service that tries again every few seconds cannot open a file after less than an hour.
Repair: a client whose constructor fails is closed.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kafka.net.compat import KafkaNetClient

from calmstream.broker.kafka.client_repairs.failed_connections import close_failed_connections

# Longest time to wait for the client's thread, in seconds. It ends at once unless it waits for the
# address of a host; then it ends later by itself.
_CLOSE_SECONDS = 1.0


@contextmanager
def close_failed_start() -> Iterator[dict[str, Any]]:
    """Yield settings for the constructor of a client, and close what it opened if it fails.

    The constructor connects at once, so the repair of connections is made here, too.
    """
    opened: list[KafkaNetClient] = []

    def open_network(**settings: Any) -> KafkaNetClient:
        network = KafkaNetClient(**settings)
        close_failed_connections(network._manager)
        opened.append(network)
        return network

    try:
        yield {"kafka_client": open_network}
    except BaseException:
        for network in opened:
            closing = threading.Thread(target=network.close, name="kafka-close", daemon=True)
            closing.start()
            closing.join(_CLOSE_SECONDS)
        raise
