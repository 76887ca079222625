"""How long to wait and how much to hold, for every client of one broker."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from estimators.errors import InvalidInput

ASSIGNORS = ("cooperative-sticky", "sticky", "range", "round-robin")
CODECS = (None, "gzip", "lz4", "snappy", "zstd")


@dataclass(frozen=True, slots=True)
class Limits:
    """Times in seconds, sizes in bytes.

    Attributes:
        connect_seconds: how long the first contact may take.
        request_seconds: how long one request may take; administration blocks so long at most.
        delivery_seconds: after so long without acknowledgement a send has failed.
        session_seconds: a group member without heartbeats for so long loses its partitions.
        poll_seconds: a group member that does not call ``poll`` for so long loses its partitions.
        block_seconds: how long ``send`` may wait for buffer space or topic metadata.
        buffer_bytes: most that is handed over and not acknowledged.
        max_request_bytes: the largest record that is sent; the topic has its own limit. The
            default leaves room around the 8 MiB of a state record.
        batch_bytes: how much is collected per partition before it is sent.
        linger_seconds: how long a record may wait for others to join its batch.
        compression: None, gzip, lz4, snappy or zstd.
        assignor: how a group shares its partitions; all members must agree.
        client_id: name of this process in the broker's logs.

    Raises:
        InvalidInput: a value is out of range.
    """

    connect_seconds: float = 10.0
    request_seconds: float = 20.0
    delivery_seconds: float = 60.0
    session_seconds: float = 30.0
    poll_seconds: float = 300.0
    block_seconds: float = 20.0
    buffer_bytes: int = 64 << 20
    max_request_bytes: int = 9 << 20
    batch_bytes: int = 256 << 10
    linger_seconds: float = 0.01
    compression: str | None = None
    assignor: str = "cooperative-sticky"
    client_id: str = "calmstream"

    def __post_init__(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name)
            if isinstance(value, (int, float)) and not (
                math.isfinite(value) and (value > 0 or item.name == "linger_seconds")
            ):
                raise InvalidInput(f"{item.name} must be positive, not {value}")
        if self.linger_seconds < 0:
            raise InvalidInput(f"linger_seconds must not be negative, not {self.linger_seconds}")
        if self.delivery_seconds < self.linger_seconds:
            raise InvalidInput("delivery_seconds must not be below linger_seconds")
        if self.compression not in CODECS:
            raise InvalidInput(f"compression must be one of {CODECS}, not {self.compression!r}")
        if self.assignor not in ASSIGNORS:
            raise InvalidInput(f"assignor must be one of {ASSIGNORS}, not {self.assignor!r}")


def milliseconds(seconds: float) -> int:
    """Return seconds as the client's milliseconds, rounded up."""
    return math.ceil(seconds * 1000)
