"""Limits of time and memory for all clients of one connection to Kafka."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class KafkaLimits:
    """Limits of the clients; times are in seconds, sizes in bytes."""

    connect_seconds: float = 10.0  # of the first contact with the cluster
    request_seconds: float = 20.0  # of one request, and so of one administrative call
    delivery_seconds: float = 60.0  # a send that is not acknowledged by then fails
    session_seconds: float = 30.0  # a member without a heartbeat for so long loses its partitions
    block_seconds: float = 20.0  # for which ``send`` waits for buffer space or topic metadata
    buffer_bytes: int = 64 << 20  # of the records that wait for their acknowledgement
    # How long a broker waits for records before it sends an empty response. A partition that is
    # resumed waits for the response that is on its way. Each response costs time for every
    # partition, so readers of many partitions wait longer.
    fetch_wait_seconds: float = 0.25
    linger_seconds: float = 0.01  # for which a record waits for others to join its batch


# Time for each client to flush and leave its group when the connection is closed.
CLOSE_SECONDS = 5.0


def milliseconds(seconds: float) -> int:
    """Return the time in whole milliseconds, which the client expects; rounded up."""
    return math.ceil(seconds * 1000)
