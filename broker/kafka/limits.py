"""Limits of time and memory for all clients of one connection to Kafka."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class KafkaLimits:
    """Limits of the clients; times are in seconds, sizes in bytes.

    Attributes:
        connect_seconds: maximum duration of the first contact with the cluster.
        request_seconds: maximum duration of one request, and so of one administrative call.
        delivery_seconds: a send fails if it is not acknowledged within this time.
        session_seconds: a group member that sends no heartbeat for this long loses its partitions.
        block_seconds: maximum time for which ``send`` waits for buffer space or topic metadata.
        buffer_bytes: maximum total size of the records that wait for their acknowledgement.
        fetch_wait_seconds: how long a broker waits for records before it sends an empty response. A
            partition that is resumed waits for the response that is on its way. Each response
            costs time for every partition, so readers of many partitions wait longer.
        linger_seconds: maximum time for which a record waits for others to join its batch.
    """

    connect_seconds: float = 10.0
    request_seconds: float = 20.0
    delivery_seconds: float = 60.0
    session_seconds: float = 30.0
    block_seconds: float = 20.0
    buffer_bytes: int = 64 << 20
    fetch_wait_seconds: float = 0.25
    linger_seconds: float = 0.01


def milliseconds(seconds: float) -> int:
    """Return the time in whole milliseconds, which the client expects; rounded up."""
    return math.ceil(seconds * 1000)
