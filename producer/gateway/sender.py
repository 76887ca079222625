"""Sends the batches of one plan: bounded in flight, repeated, all accounted for; for one thread."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from calmstream.broker.names import TopicNames, partition_of
from calmstream.broker.transport import Delivery, Sink
from calmstream.common.clock import Clock, SystemClock
from calmstream.common.errors import CalmstreamError, FatalError, RecoverableError
from calmstream.producer.gateway.encoding import BatchHead, EncodedBatch
from calmstream.producer.gateway.metrics import Failure, GatewayTotals

POLL_SECONDS = 0.05  # for one delivery, before the others are checked again


@dataclass(frozen=True, slots=True)
class SendLimits:
    """Limits of the attempts to send one batch; times in seconds."""

    in_flight: int = 64  # unacknowledged at a time; bounds the memory too
    attempt_seconds: float = 30.0  # without an answer
    pause: float = 0.1  # before the first resend; doubled each time
    longest_pause: float = 5.0


@dataclass(slots=True, eq=False)
class InFlightBatch:
    """A batch that is being sent; times are monotonic seconds."""

    encoded: EncodedBatch
    first: float
    due: float
    attempts: int = 0
    delivery: Delivery | None = None
    sent: float = 0.0


class BatchSender:
    """Follows each batch until it is acknowledged or given up.

    ``lost`` gets a batch whose send failed, and the error; it says why the batch is given up, or
    None where it is sent again. ``error`` is the first for which a batch was given up.
    """

    def __init__(
        self,
        names: TopicNames,
        sink: Callable[[], Sink],
        limits: SendLimits | None = None,
        *,
        lost: Callable[[InFlightBatch, CalmstreamError], Failure | None] = lambda *_: None,
        settled: Callable[[BatchHead, Failure | None], None] = lambda *_: None,
        totals: GatewayTotals | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._names = names
        self._sink = sink
        self._limits = limits or SendLimits()
        self._lost = lost
        self._settled = settled
        self.totals = totals or GatewayTotals()
        self._clock = clock or SystemClock()
        self._batches: deque[InFlightBatch] = deque()
        self.error: CalmstreamError | None = None

    @property
    def in_flight(self) -> int:
        return len(self._batches)

    @property
    def full(self) -> bool:
        return self.in_flight >= self._limits.in_flight

    def submit(self, encoded: EncodedBatch) -> None:
        """Send a batch; blocks while ``in_flight`` is at its bound."""
        while self.full:
            self.step(POLL_SECONDS)
        now = self._clock.monotonic()
        batch = InFlightBatch(encoded, now, now)
        self._batches.append(batch)
        self._attempt(batch)
        self.totals.in_flight(self.in_flight)

    def step(self, seconds: float = 0.0) -> None:
        """Record finished sends, start due resends; without any, wait up to ``seconds``."""
        if self._settle_all() or seconds <= 0 or not self._batches:
            return
        on_its_way = next((p.delivery for p in self._batches if p.delivery is not None), None)
        if on_its_way is None:
            pause = min(p.due for p in self._batches) - self._clock.monotonic()
            self._clock.sleep(min(seconds, max(pause, 0.0)))
            return
        with contextlib.suppress(RecoverableError, FatalError):
            on_its_way.wait(seconds)  # the next step records the outcome

    def give_up(self, waited: float) -> None:
        """Give up what is in flight after ``waited`` seconds."""
        self.step()  # acknowledged batches are not given up
        error = f"{self.in_flight} batches not acknowledged within {waited:g} s"
        for batch in list(self._batches):
            self._failed(batch, Failure.UNDELIVERED, RecoverableError(error))
        self.totals.in_flight(0)

    def _settle_all(self) -> bool:
        now = self._clock.monotonic()
        moved = False
        for batch in list(self._batches):
            if batch.delivery is None:
                if now >= batch.due:
                    self._attempt(batch)
                    moved = True
            elif batch.delivery.done() or now - batch.sent > self._limits.attempt_seconds:
                self._settle(batch, batch.delivery)
                moved = True
        if moved:
            self.totals.in_flight(self.in_flight)
        return moved

    def _attempt(self, batch: InFlightBatch) -> None:
        encoded = batch.encoded
        if batch.attempts:
            self.totals.retried()
        batch.attempts += 1
        batch.sent = self._clock.monotonic()
        topic = self._names.reports(encoded.group)
        try:
            # A partition of the plan, not of the topic: nobody counts one that was added to it.
            batch.delivery = self._sink().send(
                topic,
                encoded.batch_id,
                encoded.value,
                partition=partition_of(encoded.batch_id, self._names.partitions),
            )
        except (FatalError, RecoverableError) as error:
            self._again(batch, error)

    def _settle(self, batch: InFlightBatch, delivery: Delivery) -> None:
        try:
            delivery.wait(0.0)
        except (FatalError, RecoverableError) as error:
            self._again(batch, error)
        else:
            self._batches.remove(batch)
            self.totals.sent(batch.encoded.group, batch.encoded.n)
            self._settled(batch.encoded, None)

    def _again(self, batch: InFlightBatch, error: CalmstreamError) -> None:
        batch.delivery = None
        doubled = self._limits.pause * 2 ** min(batch.attempts - 1, 30)
        batch.due = self._clock.monotonic() + min(doubled, self._limits.longest_pause)
        why = self._lost(batch, error)
        if why is not None:
            self._failed(batch, why, error)

    def _failed(self, batch: InFlightBatch, why: Failure, error: CalmstreamError) -> None:
        self.error = self.error or error
        self._batches.remove(batch)
        self.totals.failed(batch.encoded.n, why)
        self._settled(batch.encoded, why)
