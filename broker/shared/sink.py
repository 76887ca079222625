"""One sink, shared by many plans."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable

from calmstream.broker.transport import Delivery, FailedDelivery, Headers, Sink
from calmstream.common.errors import FatalError, RecoverableError

SHARE_BYTES = 16 << 20
"""Size of the records that one plan may have in flight, a quarter of a sink's usual buffer. A plan
whose topics do not answer therefore cannot block the sends of others. A larger record may be in
flight alone."""


class SinkShare:
    """A plan's part of a shared sink; see `Sink`."""

    def __init__(self, sink: Sink, share_bytes: int = SHARE_BYTES) -> None:
        self._sink = sink
        self._share_bytes = share_bytes
        self._lock = threading.Lock()
        self._in_flight: deque[tuple[Delivery, int]] = deque()
        self._bytes = 0
        self._closed = False

    def prepare(self, topics: Iterable[str]) -> None:
        self._sink.prepare(topics)

    def send(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        *,
        partition: int = 0,
        headers: Headers = (),
    ) -> Delivery:
        """Queue a record; the result is a failure if too much of this share is in flight."""
        if self._closed:
            raise FatalError(f"sending to {topic}: the sink is closed")
        size = len(key or b"") + len(value or b"")
        with self._lock:
            if not self._has_room(size):
                return FailedDelivery(
                    RecoverableError(
                        f"sending to {topic}: {self._bytes} bytes wait for acknowledgement, "
                        "no room for more"
                    )
                )
            delivery = self._sink.send(topic, key, value, partition=partition, headers=headers)
            self._in_flight.append((delivery, size))
            self._bytes += size
        return delivery

    def close(self, timeout: float) -> None:  # noqa: ARG002 - part of the protocol
        """Accept nothing more. What was accepted is still sent."""
        self._closed = True

    def _has_room(self, size: int) -> bool:
        """Forget the sends that have ended; return whether one more fits."""
        while self._in_flight and self._in_flight[0][0].done():
            self._bytes -= self._in_flight.popleft()[1]
        if self._bytes and self._bytes + size > self._share_bytes:
            # Behind a partition that does not answer, sends to others may have ended.
            self._in_flight = deque(sent for sent in self._in_flight if not sent[0].done())
            self._bytes = sum(sent[1] for sent in self._in_flight)
        return not self._bytes or self._bytes + size <= self._share_bytes
