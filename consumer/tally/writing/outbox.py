"""Unacknowledged writes: kept, repeated within a budget, and bounded in number."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from broker.clock import Clock
from broker.transport import Delivery, Headers, Partition, Sink
from estimators.errors import FatalError, RecoverableError

_FIRST_PAUSE = 0.001
_LONGEST_PAUSE = 0.02
_RETRY_PAUSE = 0.2

# Most records and bytes in the sink at once. They fit its buffer, so that a send does not block
# while the group waits for a poll. Further writes wait here, not encoded yet.
FLIGHT_RECORDS = 1000
FLIGHT_BYTES = 32 << 20


@dataclass(slots=True)
class Write:
    """One record to be written on behalf of an input partition.

    Attributes:
        source: the input partition whose records caused it; dropped with that partition.
        topic: where it goes.
        partition: of that topic.
        key: its key.
        encode: makes its value at every attempt, so that a waiting write takes little memory.
        headers: its headers.
        acknowledged: called once when the broker has acknowledged it.
        delivery, size, since, again_at: set by the outbox.
    """

    source: Partition
    topic: str
    partition: int
    key: bytes | None
    encode: Callable[[], bytes | None]
    headers: Headers = ()
    acknowledged: Callable[[], None] | None = None
    delivery: Delivery | None = field(default=None, init=False)
    size: int = field(default=0, init=False)
    since: float | None = field(default=None, init=False)
    again_at: float = field(default=0.0, init=False)


class Outbox:
    """Unacknowledged writes. The order per key is kept unless an attempt fails; no reader needs it.

    Args:
        sink: where writes go.
        clock: for the budget.
        guard: called before every send; raises when this worker must not write any more.
        retry_seconds: a write that is not acknowledged within this time after its first attempt
            is a fatal error.
        retried: called at every repetition.
    """

    def __init__(
        self,
        sink: Sink,
        clock: Clock,
        guard: Callable[[], None],
        retry_seconds: float,
        retried: Callable[[], None],
    ) -> None:
        self._sink = sink
        self._clock = clock
        self._guard = guard
        self._budget = retry_seconds
        self._retried = retried
        self._pending: list[Write] = []
        self._flying = 0
        self._flying_bytes = 0

    def __len__(self) -> int:
        return len(self._pending)

    def send(self, write: Write) -> None:
        """Accept a write; send it now, or later while too many are unacknowledged.

        Raises:
            FatalError: from the guard.
        """
        if self._room():
            self._attempt(write)
        self._pending.append(write)

    def drop(self, sources: Collection[Partition]) -> None:
        """Forget the writes of these partitions; their new owner repeats them."""
        for write in self._pending:
            if write.source in sources:
                self._land(write)
        self._pending = [write for write in self._pending if write.source not in sources]

    def settle(self) -> None:
        """Process acknowledgements and repeat failed writes. Never waits.

        Raises:
            FatalError: a write was refused, or its budget is spent.
        """
        self._pending = [write for write in self._pending if not self._acknowledged(write)]
        now = self._clock.monotonic()
        for write in self._pending:
            if write.since is not None and now - write.since > self._budget:
                raise FatalError(
                    f"{write.topic}: a write was not acknowledged for {self._budget:g} s; are its "
                    "brokers and their in-sync replicas up?"
                )
            if write.delivery is None and now >= write.again_at and self._room():
                if write.since is not None:
                    self._retried()
                self._attempt(write)

    def drain(self, keep_alive: Callable[[], None], deadline: float | None = None) -> None:
        """Block until nothing is pending.

        Args:
            keep_alive: called often.
            deadline: monotonic time after which the call stops waiting.

        Raises:
            RecoverableError: the deadline passed.
            FatalError: as :meth:`settle`.
        """
        pause = _FIRST_PAUSE
        self.settle()
        while self._pending:
            if deadline is not None and self._clock.monotonic() >= deadline:
                raise RecoverableError(f"{len(self._pending)} writes were not acknowledged in time")
            self._clock.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
            keep_alive()
            self.settle()

    def _room(self) -> bool:
        return self._flying < FLIGHT_RECORDS and self._flying_bytes < FLIGHT_BYTES

    def _attempt(self, write: Write) -> None:
        self._guard()
        value = write.encode()
        if write.since is None:
            write.since = self._clock.monotonic()
        try:
            write.delivery = self._sink.send(
                write.topic, write.key, value, partition=write.partition, headers=write.headers
            )
        except RecoverableError:
            self._postpone(write)
        else:
            write.size = len(value or b"")
            self._flying += 1
            self._flying_bytes += write.size

    def _postpone(self, write: Write) -> None:
        write.again_at = self._clock.monotonic() + _RETRY_PAUSE

    def _land(self, write: Write) -> None:
        """End an attempt, successful or not."""
        if write.delivery is not None:
            write.delivery = None
            self._flying -= 1
            self._flying_bytes -= write.size

    def _acknowledged(self, write: Write) -> bool:
        delivery = write.delivery
        if delivery is None or not delivery.done():
            return False
        self._land(write)
        try:
            delivery.wait(0)
        except RecoverableError:
            self._postpone(write)
            return False
        if write.acknowledged is not None:
            write.acknowledged()
        return True
