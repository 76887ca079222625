"""Sends encoded batches: bounded in flight, retried within a budget, and all accounted for.

Not safe for use from several threads: one thread owns a sender and drives it with ``step``.
"""

from __future__ import annotations

import contextlib
import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from calmstream.broker.names import TopicNames
from calmstream.broker.partitioner import partition_of
from calmstream.broker.transport import Delivery, Sink
from calmstream.common.clock import Clock, SystemClock
from calmstream.common.errors import CalmstreamError, FatalError, RecoverableError
from calmstream.producer.gateway.encoding import EncodedBatch
from calmstream.producer.gateway.totals import Accounts, Failure, Observer, Totals

POLL_SECONDS = 0.05
"""Longest wait for one delivery before the others are checked again."""


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits of the attempts to send one batch.

    Attributes:
        in_flight: most batches that are unacknowledged at a time; bounds the memory too.
        attempts: most sends of one batch.
        seconds: time since its first send after which a failed batch is not sent again.
        attempt_seconds: time after which a send without answer counts as failed.
        pause: seconds before the first resend; doubled each time.
        longest_pause: seconds; upper bound of the doubled pause.
    """

    in_flight: int = 64
    attempts: int = 12
    seconds: float = 120.0
    attempt_seconds: float = 30.0
    pause: float = 0.1
    longest_pause: float = 5.0

    def __post_init__(self) -> None:
        if self.in_flight < 1 or self.attempts < 1:
            raise ValueError("in_flight and attempts are at least 1")
        if min(self.seconds, self.attempt_seconds, self.pause, self.longest_pause) < 0:
            raise ValueError("times are not negative")


@dataclass(slots=True, eq=False)
class InFlightBatch:
    """A batch that is being sent; times are monotonic seconds.

    Attributes:
        encoded: what is sent.
        first: time of the first send.
        due: time of the next send, while no send is under way.
        attempts: sends so far.
        delivery: the send under way, or None.
        sent: time of the last send.
    """

    encoded: EncodedBatch
    first: float
    due: float
    attempts: int = 0
    delivery: Delivery | None = None
    sent: float = 0.0


class Keeper(Protocol):
    """Keeps batches until they are settled: `Spool`, for one."""

    def store(self, batch: EncodedBatch) -> None:
        """Write a batch; durable on return.

        Raises:
            RecoverableError: it could not be written.
        """

    def remove(self, batch: EncodedBatch) -> None:
        """Note that a batch was acknowledged."""

    def give_up(self, batch: EncodedBatch) -> None:
        """Note that a batch is not sent again."""


class BatchSender:
    """Sends batches and follows each one until it is acknowledged or given up.

    Args:
        names: topics of the plan.
        sink: appends; stays the caller's to close.
        budget: see :class:`Budget`.
        spool: keeps batches on disk until they are acknowledged.
        expired: whether a batch has become useless. Where given, it alone ends the attempts: the
            budget's ``attempts`` and ``seconds`` do not apply, and a batch that the broker refused
            is sent again too, because somebody may mend the cause.
        observer: receives what happens to batches.
        clock: monotonic time and sleep.

    Attributes:
        fatal: the first error that no resend can cure, or None.
        trouble: the first lasting failure: the fatal error, a batch whose budget ran out, or a
            spool that could not be written; or None.
    """

    def __init__(
        self,
        names: TopicNames,
        sink: Sink,
        budget: Budget | None = None,
        *,
        spool: Keeper | None = None,
        expired: Callable[[EncodedBatch], bool] | None = None,
        observer: Observer | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._names = names
        self._sink = sink
        self._budget = budget or Budget()
        self._spool = spool
        self._expired = expired
        self._accounts = Accounts(observer)
        self._clock = clock or SystemClock()
        self._batches: deque[InFlightBatch] = deque()
        self.fatal: FatalError | None = None
        self.trouble: CalmstreamError | None = None

    @property
    def totals(self) -> Totals:
        """Counts so far."""
        return self._accounts.totals()

    @property
    def in_flight(self) -> int:
        """Batches handed over and neither acknowledged nor given up."""
        return len(self._batches)

    @property
    def full(self) -> bool:
        """Whether :meth:`submit` would have to wait."""
        return self.in_flight >= self._budget.in_flight

    def submit(self, encoded: EncodedBatch) -> None:
        """Accept a batch and send it; blocks while ``in_flight`` is at its bound.

        If the spool cannot be written, the batch is sent without it, because a batch that is not
        sent is lost for certain; ``trouble`` holds the error.
        """
        self._accounts.taken(encoded.group, encoded.n)
        self._store(encoded)
        while self.full:
            self.step(POLL_SECONDS)
        now = self._clock.monotonic()
        batch = InFlightBatch(encoded, now, now)
        self._batches.append(batch)
        self._attempt(batch)
        self._accounts.in_flight(self.in_flight)

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

    def drain(self, seconds: float | None = None) -> None:
        """Wait until nothing is in flight.

        Args:
            seconds: after which the rest is given up; None leaves that to the budget.
        """
        deadline = math.inf if seconds is None else self._clock.monotonic() + seconds
        while self._batches:
            over = self._clock.monotonic() >= deadline
            self.step(0.0 if over else POLL_SECONDS)  # acknowledged batches are not given up
            if over and self._batches:
                self._abandon(f"{self.in_flight} batches not acknowledged within {seconds:g} s")

    def _abandon(self, why: str) -> None:
        self.trouble = self.trouble or RecoverableError(why)
        for batch in list(self._batches):
            self._failed(batch)
        self._accounts.in_flight(0)

    def _store(self, encoded: EncodedBatch) -> None:
        if self._spool is not None:
            try:
                self._spool.store(encoded)
            except RecoverableError as error:
                self.trouble = self.trouble or error

    def _settle_all(self) -> bool:
        now = self._clock.monotonic()
        moved = False
        for batch in list(self._batches):
            if batch.delivery is None:
                if now >= batch.due:
                    self._attempt(batch)
                    moved = True
            elif batch.delivery.done() or now - batch.sent > self._budget.attempt_seconds:
                self._settle(batch, batch.delivery)
                moved = True
        if moved:
            self._accounts.in_flight(self.in_flight)
        return moved

    def _attempt(self, batch: InFlightBatch) -> None:
        encoded = batch.encoded
        if batch.attempts:
            self._accounts.retried(encoded.group)
        batch.attempts += 1
        batch.sent = self._clock.monotonic()
        try:
            batch.delivery = self._sink.send(
                self._names.reports(encoded.group),
                encoded.batch_id,
                encoded.value,
                # Of the plan, not of the topic: nobody counts a partition that was added to it.
                partition=partition_of(encoded.batch_id, self._names.partitions),
                headers=encoded.headers,
            )
        except FatalError as error:
            self._refused(batch, error)
        except RecoverableError as error:
            self._again(batch, error)

    def _settle(self, batch: InFlightBatch, delivery: Delivery) -> None:
        try:
            delivery.wait(0.0)
        except FatalError as error:
            self._refused(batch, error)
        except RecoverableError as error:
            self._again(batch, error)
        else:
            self._delivered(batch)

    def _delivered(self, batch: InFlightBatch) -> None:
        self._batches.remove(batch)
        self._accounts.sent(batch.encoded.group, batch.encoded.n)
        if self._spool is not None:
            self._spool.remove(batch.encoded)

    def _again(self, batch: InFlightBatch, error: CalmstreamError) -> None:
        """Plan a resend of the same bytes, unless the budget is spent."""
        now = self._clock.monotonic()
        batch.delivery = None
        doubled = self._budget.pause * 2 ** min(batch.attempts - 1, 30)
        pause = min(doubled, self._budget.longest_pause)
        batch.due = now + pause
        if self._expired is not None:
            if self._expired(batch.encoded):
                self._failed(batch, Failure.EXPIRED)
            return
        spent = batch.due - batch.first > self._budget.seconds
        if batch.attempts >= self._budget.attempts or spent:
            self.trouble = self.trouble or error
            self._failed(batch)

    def _refused(self, batch: InFlightBatch, error: FatalError) -> None:
        self.fatal = self.fatal or error
        if self._expired is not None:
            self._again(batch, error)
            return
        self.trouble = self.trouble or error
        self._failed(batch)

    def _failed(self, batch: InFlightBatch, why: Failure = Failure.UNDELIVERED) -> None:
        self._batches.remove(batch)
        self._accounts.failed(batch.encoded.group, batch.encoded.n, why)
        if self._spool is not None:
            self._spool.give_up(batch.encoded)
