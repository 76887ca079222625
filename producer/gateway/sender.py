"""Sends the batches of one plan: bounded in flight, repeated, all accounted for; for one thread."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass

from calmstream.broker.names import TopicNames, partition_of
from calmstream.broker.transport import Delivery, Sink
from calmstream.common.clock import Clock, SystemClock
from calmstream.common.errors import CalmstreamError, FatalError, RecoverableError
from calmstream.producer.gateway.encoding import EncodedBatch
from calmstream.producer.gateway.metrics import Failure, GatewayTotals

POLL_SECONDS = 0.05  # for one delivery, before the others are checked again


@dataclass(slots=True, eq=False)
class InFlightBatch:
    """A batch that is being sent; times are monotonic seconds."""

    encoded: EncodedBatch
    first: float
    due: float
    attempts: int = 0
    delivery: Delivery | None = None
    sent: float = 0.0
    error: CalmstreamError | None = None  # of the last attempt, until it is taken


class BatchSender:
    """Follows each batch until it is acknowledged, or until its owner gives it up.

    ``error`` is the first for which a batch was given up.
    """

    most = 64  # unacknowledged at a time; bounds the memory too
    attempt_seconds = 30.0  # without an answer
    pause = 0.1  # seconds before the first resend; doubled each time
    longest_pause = 10.0

    def __init__(
        self,
        names: TopicNames,
        sink: Callable[[], Sink],
        *,
        totals: GatewayTotals | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._names = names
        self._sink = sink
        self.totals = totals or GatewayTotals()
        self._clock = clock or SystemClock()
        self._batches: list[InFlightBatch] = []
        self.error: CalmstreamError | None = None

    @property
    def in_flight(self) -> int:
        return len(self._batches)

    @property
    def full(self) -> bool:
        """Whether another batch has to wait."""
        return self.in_flight >= self.most

    @property
    def failing(self) -> bool:
        """Whether an attempt has failed of a batch that is not acknowledged yet."""
        return any(batch.delivery is None or batch.attempts > 1 for batch in self._batches)

    def submit(self, encoded: EncodedBatch) -> None:
        now = self._clock.monotonic()
        batch = InFlightBatch(encoded, now, now)
        self._batches.append(batch)
        self._attempt(batch)
        self.totals.in_flight(self.in_flight)

    def step(self, seconds: float = 0.0) -> list[EncodedBatch]:
        """Return batches that were acknowledged; start due resends.

        Where nothing ended or began, wait up to ``seconds``; the outcome comes with the next step.
        """
        now, before = self._clock.monotonic(), self._batches
        ended = [batch for batch in before if self._has_ended(batch, now)]
        due = [batch for batch in before if batch.delivery is None and now >= batch.due]
        acknowledged = [batch for batch in ended if self._is_acknowledged(batch)]
        for batch in due:
            self._attempt(batch)
        if acknowledged:
            self._batches = [batch for batch in before if batch not in acknowledged]
        if ended or due:
            self.totals.in_flight(self.in_flight)
        elif before and seconds > 0:
            self._wait(seconds)
        return [batch.encoded for batch in acknowledged]

    def take_failed(self) -> list[tuple[InFlightBatch, CalmstreamError]]:
        """Return the batches of which an attempt failed since the last call, and the errors."""
        found = [(batch, batch.error) for batch in self._batches if batch.error is not None]
        for batch, _ in found:
            batch.error = None
        return found

    def give_up(self, batch: InFlightBatch, why: Failure, error: CalmstreamError) -> None:
        self.error = self.error or error
        self._batches.remove(batch)
        self.totals.failed(batch.encoded.n, why)
        self.totals.in_flight(self.in_flight)

    def give_up_all(self, error: CalmstreamError) -> None:
        """Give up what is not acknowledged."""
        for batch in list(self._batches):
            self.give_up(batch, Failure.UNDELIVERED, error)

    def _wait(self, seconds: float) -> None:
        on_its_way = next((p.delivery for p in self._batches if p.delivery is not None), None)
        if on_its_way is None:
            pause = min(p.due for p in self._batches) - self._clock.monotonic()
            self._clock.sleep(min(seconds, max(pause, 0.0)))
            return
        with contextlib.suppress(RecoverableError, FatalError):
            on_its_way.wait(seconds)

    def _has_ended(self, batch: InFlightBatch, now: float) -> bool:
        if batch.delivery is None:
            return False
        return batch.delivery.done() or now - batch.sent > self.attempt_seconds

    def _is_acknowledged(self, batch: InFlightBatch) -> bool:
        assert batch.delivery is not None
        try:
            batch.delivery.wait(0.0)
        except (FatalError, RecoverableError) as error:
            self._failed(batch, error)
            return False
        self.totals.sent(batch.encoded.group, batch.encoded.n)
        return True

    def _attempt(self, batch: InFlightBatch) -> None:
        encoded = batch.encoded
        if batch.attempts:
            self.totals.retried()
        batch.attempts += 1
        batch.sent = self._clock.monotonic()
        try:
            # A partition of the plan, not of the topic: nobody counts one that was added to it.
            batch.delivery = self._sink().send(
                self._names.reports(encoded.group),
                encoded.batch_id,
                encoded.value,
                partition=partition_of(encoded.batch_id, self._names.partitions),
            )
        except (FatalError, RecoverableError) as error:
            self._failed(batch, error)

    def _failed(self, batch: InFlightBatch, error: CalmstreamError) -> None:
        batch.delivery, batch.error = None, error
        doubled = self.pause * 2 ** min(batch.attempts - 1, 30)
        batch.due = self._clock.monotonic() + min(doubled, self.longest_pause)
