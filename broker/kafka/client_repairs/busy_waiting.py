"""Repair of a producer that uses a whole core while it waits for a connection.

Fault: while a connection is being made, kafka-python checks it in a loop without a pause. It also
uses a delay in seconds as if it were in milliseconds.
Effect: a node that accepts connections and answers nothing costs a whole core.
Repair: the pause is given in milliseconds and is at least 20 ms long.
"""

from __future__ import annotations

from kafka.net.compat import KafkaNetClient

# Short enough not to delay a new connection noticeably, long enough to cost hardly any CPU time.
_CONNECTING_PAUSE_MS = 20.0


def pause_while_connecting(client: KafkaNetClient) -> None:
    """Let the producer pause before it checks a node without a connection again."""
    manager = client._manager

    def delay_ms(node: object) -> float:
        return max(_CONNECTING_PAUSE_MS, 1000 * float(manager.connection_delay(node)))

    client.connection_delay = delay_ms
