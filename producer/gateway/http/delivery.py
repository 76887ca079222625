"""The thread that sends sealed batches until the broker has them or their window is over."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from calmstream.broker.names import TopicNames
from calmstream.broker.transport import Sink
from calmstream.common.clock import Clock
from calmstream.common.errors import CalmstreamError, FatalError, RecoverableError
from calmstream.estimators.plan import Plan
from calmstream.producer.gateway.durable.entries import SealedBatch
from calmstream.producer.gateway.durable.plan_spool import over_at
from calmstream.producer.gateway.encoding import EncodedBatch
from calmstream.producer.gateway.metrics import Failure, GatewayTotals
from calmstream.producer.gateway.sender import BatchSender, Budget

if TYPE_CHECKING:
    from calmstream.producer.gateway.http.gateway import Gateway

POLL_SECONDS = 0.02
CONNECT_SECONDS = 2.0
RENEW_SECONDS = 30.0


@dataclass(slots=True)
class _PlanQueue:
    """The batches of one plan that wait, and the sender of the others."""

    plan: Plan
    sender: BatchSender
    waiting: deque[SealedBatch] = field(default_factory=deque)


class BatchDelivery:
    """Sends the batches of all plans over one connection.

    Memory: the bodies of at most ``budget.in_flight`` batches per plan, and 200 bytes for each
    other batch that waits.

    ``trouble`` is the latest error of the broker or of the disk, ``turned`` when the loop last
    turned, on the monotonic clock.
    """

    def __init__(
        self,
        connect: Callable[[], Sink],
        names: Callable[[Plan], TopicNames],
        totals: Callable[[Plan], GatewayTotals],
        clock: Clock,
        budget: Budget | None = None,
    ) -> None:
        self._connect = connect
        self._names = names
        self._totals = totals
        self._clock = clock
        self._budget = replace(budget or Budget(), longest_pause=10.0)
        self._changed = threading.Condition()
        self._inbox: list[tuple[Plan, SealedBatch]] = []
        self._stop_at: float | None = None
        self._queues: dict[str, _PlanQueue] = {}
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

    def run(self, kept: Gateway) -> None:
        """Work until :meth:`stop`. What is not settled then stays in the spool."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: bool(self._inbox), self._pause())
                stop_at = self._stop_at
            self.turn(kept)
            if stop_at is not None and (not self._busy() or self._clock.monotonic() >= stop_at):
                return

    def turn(self, kept: Gateway) -> None:
        """Send what is due and note what is settled, without waiting."""
        self.turned = self._clock.monotonic()
        with self._changed:
            inbox, self._inbox = self._inbox, []
        for plan, batch in inbox:
            if plan.digest not in self._queues:
                self._queues[plan.digest] = self._queue(plan, kept)
            self._queues[plan.digest].waiting.append(batch)
        self._connect_if_due()
        for queue in self._queues.values():
            self._step(queue, kept)

    def _busy(self) -> bool:
        return any(queue.waiting or queue.sender.in_flight for queue in self._queues.values())

    def _pause(self) -> float:
        return POLL_SECONDS if self._busy() or self._stop_at is not None else 0.5

    def _connect_if_due(self) -> None:
        now = self._clock.monotonic()
        if self._sink is None and now - self._connected >= CONNECT_SECONDS:
            self._connected = now
            try:
                self._sink = self._connect()
            except (RecoverableError, FatalError) as error:
                self.trouble = error

    def _present_sink(self) -> Sink:
        if self._sink is None:
            raise RecoverableError("there is no connection to the broker")
        return self._sink

    def _queue(self, plan: Plan, kept: Gateway) -> _PlanQueue:
        def settled(batch: EncodedBatch, acknowledged: bool) -> None:
            kept.settle(plan.digest, batch, None if acknowledged else Failure.EXPIRED)

        sender = BatchSender(
            self._names(plan),
            self._present_sink,
            self._budget,
            expired=lambda batch: kept.present() >= over_at(plan, batch.period),
            settled=settled,
            totals=self._totals(plan),
            clock=self._clock,
        )
        return _PlanQueue(plan, sender)

    def _step(self, queue: _PlanQueue, kept: Gateway) -> None:
        present = kept.present()

        def lose(why: Failure) -> None:
            queue.sender.totals.failed(batch.n, why)
            kept.settle(queue.plan.digest, queue.waiting.popleft(), why)

        while queue.waiting:
            batch = queue.waiting[0]
            if present >= over_at(queue.plan, batch.period):
                lose(Failure.EXPIRED)
                continue
            if queue.sender.full or self._sink is None:
                break
            try:
                encoded = kept.body(queue.plan.digest, batch)
            except RecoverableError as error:
                self.trouble = error
                break
            except FatalError as error:
                self.trouble = error
                lose(Failure.DAMAGED)
                continue
            queue.waiting.popleft()
            queue.sender.submit(encoded)
        queue.sender.step()
        self._reconnect_if_refused(queue.sender)

    def _reconnect_if_refused(self, sender: BatchSender) -> None:
        """Make a new connection after an error that lasts: some clients never recover from one."""
        if sender.fatal is None:
            return
        self.trouble, sender.fatal = sender.fatal, None
        if self._sink is not None and self._clock.monotonic() - self._connected >= RENEW_SECONDS:
            self._sink.close(0.0)
            self._sink = None

    @property
    def waiting(self) -> int:
        """Batches that are not settled; safe from any thread."""
        queues = list(self._queues.values())
        return len(self._inbox) + sum(
            len(queue.waiting) + queue.sender.in_flight for queue in queues
        )

    def close(self) -> None:
        """Release the connection. Never raises."""
        if self._sink is not None:
            self._sink.close(0.0)
