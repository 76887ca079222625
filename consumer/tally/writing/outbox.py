"""The outbox keeps a worker's writes until they are acknowledged, and repeats those that fail."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from calmstream.broker.transport import Delivery, Headers, Partition, Sink
from calmstream.common.errors import FatalError, RecoverableError
from calmstream.consumer.metrics.tally import SEND_RETRIES
from calmstream.consumer.runtime.context import TallyContext

# First and longest pause between two checks while the worker waits for acknowledgements.
_FIRST_PAUSE = 0.001
_LONGEST_PAUSE = 0.02
# Pause before a failed write is repeated.
_RETRY_PAUSE = 0.2

# Maximum number and total size of the records in flight. They fit into the Kafka client's buffer,
# so that a send never blocks; a worker that is blocked could not poll. Further writes wait in the
# outbox and are not encoded yet.
FLIGHT_RECORDS = 1000
FLIGHT_BYTES = 32 << 20


@dataclass(slots=True)
class Write:
    """One record to write for the input partition ``source``, with which it is dropped.

    ``encode`` is called at every attempt, so that a waiting write needs little memory. The outbox
    sets the rest; its times are monotonic.
    """

    source: Partition
    topic: str
    partition: int
    key: bytes | None
    encode: Callable[[], bytes | None]
    headers: Headers = ()
    delivery: Delivery | None = field(default=None, init=False)
    size: int = field(default=0, init=False)
    first_attempt_at: float | None = field(default=None, init=False)
    again_at: float = field(default=0.0, init=False)


class WriteOutbox:
    """Keeps writes until they are acknowledged, and repeats failed ones for a limited time.

    A repeated write can stand in the log behind a later one. No reader depends on this order:
    pending writes to the state topic have different keys, and that of dead letters has no meaning.
    """

    def __init__(self, context: TallyContext, sink: Sink, guard: Callable[[], None]) -> None:
        self._sink = sink
        self._clock = context.clock
        self._metrics = context.metrics
        self._guard = guard  # raises when another worker may own the partitions
        self._retry_seconds = context.config.retry_seconds
        self._pending: list[Write] = []
        self._in_flight = 0
        self._in_flight_bytes = 0

    def __len__(self) -> int:
        return len(self._pending)

    def send(self, write: Write) -> None:
        """Accept a write; send it now, or later if too many are in flight."""
        if self._has_room():
            self._attempt(write)
        self._pending.append(write)

    def drop(self, sources: Collection[Partition]) -> None:
        """Forget the writes of lost partitions; the next owner reads their input again."""
        for write in self._pending:
            if write.source in sources:
                self._end_attempt(write)
        self._pending = [write for write in self._pending if write.source not in sources]

    def settle(self) -> None:
        """Process acknowledgements and repeat failed writes. Never waits."""
        self._pending = [write for write in self._pending if not self._finished(write)]
        now = self._clock.monotonic()
        for write in self._pending:
            started = write.first_attempt_at
            if started is not None and now - started > self._retry_seconds:
                raise FatalError(
                    f"{write.topic}: a write was not acknowledged for {self._retry_seconds:g} s; "
                    "are its brokers and their in-sync replicas up?"
                )
            if write.delivery is None and now >= write.again_at and self._has_room():
                if started is not None:
                    self._metrics.inc(SEND_RETRIES)
                self._attempt(write)

    def drain(self, keep_alive: Callable[[], None], deadline: float | None = None) -> None:
        pause = _FIRST_PAUSE
        self.settle()
        while self._pending:
            if deadline is not None and self._clock.monotonic() >= deadline:
                raise RecoverableError(f"{len(self._pending)} writes were not acknowledged in time")
            self._clock.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
            keep_alive()
            self.settle()

    def _has_room(self) -> bool:
        return self._in_flight < FLIGHT_RECORDS and self._in_flight_bytes < FLIGHT_BYTES

    def _attempt(self, write: Write) -> None:
        self._guard()
        value = write.encode()
        if write.first_attempt_at is None:
            write.first_attempt_at = self._clock.monotonic()
        try:
            write.delivery = self._sink.send(
                write.topic, write.key, value, partition=write.partition, headers=write.headers
            )
        except RecoverableError:
            self._postpone(write)
        else:
            write.size = len(value or b"")
            self._in_flight += 1
            self._in_flight_bytes += write.size

    def _postpone(self, write: Write) -> None:
        write.again_at = self._clock.monotonic() + _RETRY_PAUSE

    def _end_attempt(self, write: Write) -> None:
        if write.delivery is not None:
            write.delivery = None
            self._in_flight -= 1
            self._in_flight_bytes -= write.size

    def _finished(self, write: Write) -> bool:
        """End the present attempt of a write if its outcome is known; repeat one that failed."""
        delivery = write.delivery
        if delivery is None or not delivery.done():
            return False
        self._end_attempt(write)
        try:
            delivery.wait(0)
        except RecoverableError:
            self._postpone(write)
            return False
        return True
