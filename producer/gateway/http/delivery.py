"""The thread that sends sealed batches until the broker has them or their window is over."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Protocol

from calmstream.broker.names import TopicNames
from calmstream.broker.transport import Delivery as SentRecord
from calmstream.broker.transport import Headers, Sink
from calmstream.common.clock import Clock
from calmstream.common.errors import CalmstreamError, FatalError, RecoverableError
from calmstream.estimators.plan import Plan
from calmstream.producer.gateway.durable.period_log import SealedBatch
from calmstream.producer.gateway.durable.plan_spool import over_at
from calmstream.producer.gateway.encoding import EncodedBatch
from calmstream.producer.gateway.sender import BatchSender, Budget
from calmstream.producer.gateway.totals import Failure, Observer

POLL_SECONDS = 0.02
CONNECT_SECONDS = 2.0
RENEW_SECONDS = 30.0


class Shelf(Protocol):
    """Where sealed batches are kept."""

    def body(self, digest: str, batch: SealedBatch) -> EncodedBatch:
        """Return a batch with its bytes; safe from any thread.

        Raises:
            RecoverableError: it cannot be read.
        """

    def settle(self, digest: str, batch: SealedBatch, *, acknowledged: bool) -> None:
        """Note what became of a batch; safe from any thread."""

    def present(self) -> int:
        """Return the time by which windows end, milliseconds since the epoch."""


@dataclass(slots=True)
class _Lane:
    """What is on its way of one plan."""

    plan: Plan
    observer: Observer
    sender: BatchSender
    sent: dict[bytes, SealedBatch]
    queue: deque[SealedBatch] = field(default_factory=deque)


class _Keeper:
    """The `Keeper` of one plan: batches are in the spool already."""

    def __init__(self, digest: str, shelf: Shelf) -> None:
        self._digest = digest
        self._shelf = shelf
        self.sent: dict[bytes, SealedBatch] = {}

    def store(self, batch: EncodedBatch) -> None:
        """Nothing is left to do."""

    def remove(self, batch: EncodedBatch) -> None:
        """Note that a batch was acknowledged."""
        self._shelf.settle(self._digest, self.sent.pop(batch.batch_id), acknowledged=True)

    def give_up(self, batch: EncodedBatch) -> None:
        """Note that the window of a batch ended first."""
        self._shelf.settle(self._digest, self.sent.pop(batch.batch_id), acknowledged=False)


class Delivery:
    """Sends the batches of all plans over one connection.

    Memory: the bodies of at most ``budget.in_flight`` batches per plan, and 200 bytes for each
    other batch that waits.

    Args:
        connect: makes the sink; called again until it succeeds.
        names: gives the topics of a plan.
        observer: gives what receives the events of a plan.
        budget: its number of batches in flight and its times between sends.
        clock: monotonic time.

    Attributes:
        trouble: the latest error of the broker or of the disk; None before the first.
        turned: when the loop last turned, on the monotonic clock.
    """

    def __init__(
        self,
        connect: Callable[[], Sink],
        names: Callable[[Plan], TopicNames],
        observer: Callable[[Plan], Observer],
        clock: Clock,
        budget: Budget | None = None,
    ) -> None:
        self._connect = connect
        self._names = names
        self._observer = observer
        self._clock = clock
        self._budget = replace(budget or Budget(), longest_pause=10.0)
        self._changed = threading.Condition()
        self._inbox: list[tuple[Plan, SealedBatch]] = []
        self._stop_at: float | None = None
        self._lanes: dict[str, _Lane] = {}
        self._sink: Sink | None = None
        self._connected = -CONNECT_SECONDS
        self.trouble: CalmstreamError | None = None
        self.turned = clock.monotonic()

    def put(self, plan: Plan, batch: SealedBatch) -> None:
        """Send a batch until it is settled; safe from any thread, never blocks."""
        with self._changed:
            self._inbox.append((plan, batch))
            self._changed.notify()

    def stop(self, seconds: float) -> None:
        """End :meth:`run` when everything is settled, or after ``seconds``."""
        with self._changed:
            self._stop_at = self._clock.monotonic() + seconds
            self._changed.notify()

    def run(self, shelf: Shelf) -> None:
        """Work until :meth:`stop`. What is not settled then stays in the spool."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: bool(self._inbox), self._pause())
                stop_at = self._stop_at
            self.turn(shelf)
            waits = any(lane.queue or lane.sent for lane in self._lanes.values())
            if stop_at is not None and (not waits or self._clock.monotonic() >= stop_at):
                return

    def turn(self, shelf: Shelf) -> None:
        """Send what is due and note what is settled, without waiting."""
        self.turned = self._clock.monotonic()
        with self._changed:
            inbox, self._inbox = self._inbox, []
        self._sort(inbox, shelf)
        self._connect_if_due()
        for lane in self._lanes.values():
            self._step(lane, shelf)

    def _pause(self) -> float:
        busy = any(lane.queue or lane.sent for lane in self._lanes.values())
        return POLL_SECONDS if busy or self._stop_at is not None else 0.5

    def _connect_if_due(self) -> None:
        now = self._clock.monotonic()
        if self._sink is None and now - self._connected >= CONNECT_SECONDS:
            self._connected = now
            try:
                self._sink = self._connect()
            except (RecoverableError, FatalError) as error:
                self.trouble = error

    def _sort(self, inbox: list[tuple[Plan, SealedBatch]], shelf: Shelf) -> None:
        for plan, batch in inbox:
            digest = plan.digest
            if digest not in self._lanes:
                self._lanes[digest] = self._lane(plan, shelf)
            self._lanes[digest].queue.append(batch)

    def _lane(self, plan: Plan, shelf: Shelf) -> _Lane:
        keeper = _Keeper(plan.digest, shelf)
        observer = self._observer(plan)
        sender = BatchSender(
            self._names(plan),
            _Through(lambda: self._sink),
            self._budget,
            spool=keeper,
            expired=lambda batch: self._is_over(plan, keeper.sent[batch.batch_id], shelf),
            observer=observer,
            clock=self._clock,
        )
        return _Lane(plan, observer, sender, keeper.sent)

    def _is_over(self, plan: Plan, batch: SealedBatch, shelf: Shelf) -> bool:
        return shelf.present() >= over_at(plan, batch.period)

    def _step(self, lane: _Lane, shelf: Shelf) -> None:
        digest = lane.plan.digest
        for _ in range(len(lane.queue)):
            batch = lane.queue[0]
            if self._is_over(lane.plan, batch, shelf):
                lane.queue.popleft()
                lane.observer.failed(batch.group, batch.n, Failure.EXPIRED)
                shelf.settle(digest, batch, acknowledged=False)
                continue
            if lane.sender.full or self._sink is None:
                break
            try:
                encoded = shelf.body(digest, batch)
            except RecoverableError as error:
                self.trouble = error
                break
            lane.queue.popleft()
            lane.sent[batch.batch_id] = batch
            lane.sender.submit(encoded)
        lane.sender.step()
        self._reconnect_if_refused(lane)

    def _reconnect_if_refused(self, lane: _Lane) -> None:
        """Make a new connection after an error that lasts: some clients never recover from one."""
        if lane.sender.fatal is None:
            return
        self.trouble, lane.sender.fatal = lane.sender.fatal, None
        if self._sink is not None and self._clock.monotonic() - self._connected >= RENEW_SECONDS:
            self._sink.close(0.0)
            self._sink = None

    @property
    def waiting(self) -> int:
        """Batches that are not settled; safe from any thread."""
        lanes = list(self._lanes.values())
        return len(self._inbox) + sum(len(lane.queue) + len(lane.sent) for lane in lanes)

    def close(self) -> None:
        """Release the connection. Never raises."""
        if self._sink is not None:
            self._sink.close(0.0)


class _Through:
    """A `Sink` that sends through the connection of the moment."""

    def __init__(self, sink: Callable[[], Sink | None]) -> None:
        self._sink = sink

    def prepare(self, topics: Iterable[str]) -> None:
        """See the protocol."""
        self._present().prepare(topics)

    def send(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        *,
        partition: int | None = None,
        headers: Headers = (),
    ) -> SentRecord:
        """See the protocol."""
        return self._present().send(topic, key, value, partition=partition, headers=headers)

    def flush(self, timeout: float) -> None:
        """See the protocol."""
        self._present().flush(timeout)

    def close(self, timeout: float) -> None:
        """Nothing: the delivery closes the connection."""

    def _present(self) -> Sink:
        sink = self._sink()
        if sink is None:
            raise RecoverableError("there is no connection to the broker")
        return sink
