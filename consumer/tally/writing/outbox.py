"""Writes on their way: kept until acknowledged, repeated within a budget, bounded in number."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from broker.clock import Clock
from broker.transport import Delivery, Headers, Partition, Sink
from estimators.errors import FatalError, RecoverableError

_FIRST_PAUSE = 0.001
_LONGEST_PAUSE = 0.02
_RETRY_PAUSE = 0.2

# How much is handed to the sink at once: below its buffer, so that a send does not block while the
# group waits for a poll. The rest waits here, unencoded.
FLIGHT_RECORDS = 1000
FLIGHT_BYTES = 32 << 20


@dataclass(slots=True)
class Write:
    """One record to be written on behalf of an input partition.

    Attributes:
        source: the input partition it follows from; dropped with it.
        topic: where it goes.
        partition: of that topic.
        key: its key.
        encode: makes its value, again at every attempt, so that waiting costs little memory.
        headers: its headers.
        acknowledged: called once when the broker has it.
        delivery, size, since, again_at: the outbox's own notes.
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
    """Unacknowledged writes. Order per key is kept unless an attempt fails; nothing depends on it.

    Args:
        sink: where writes go.
        clock: for the budget.
        guard: called before every send; raises when this worker may write no more.
        retry_seconds: a write not acknowledged for so long is fatal.
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
        """Hand a write over, or keep it back while too much is on its way.

        Raises:
            FatalError: from the guard.
        """
        if self._room():
            self._attempt(write)
        self._pending.append(write)

    def drop(self, sources: Collection[Partition]) -> None:
        """Forget the writes of these partitions; their new owner makes them again."""
        for write in self._pending:
            if write.source in sources:
                self._land(write)
        self._pending = [write for write in self._pending if write.source not in sources]

    def settle(self) -> None:
        """Take note of what was acknowledged; repeat what failed. Never waits.

        Raises:
            FatalError: refused for good, or the budget of a write is spent.
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
            deadline: monotonic time after which waiting is given up.

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
        """The attempt is over, whatever came of it."""
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
