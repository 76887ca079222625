"""Takes sealed batches to the broker: bounded in flight, retried within a budget, accounted for.

Not safe for use from several threads: one thread owns a courier and turns it.
"""

from __future__ import annotations

import contextlib
import math
from collections import deque
from dataclasses import dataclass

from broker.clock import Clock, SystemClock
from broker.names import TopicNames
from broker.transport import Delivery, Sink
from estimators.errors import CalmstreamError, FatalError, RecoverableError
from producer.encoding import Sealed
from producer.gateway.spool import Spool
from producer.gateway.totals import Accounts, Failure, Observer, Totals

POLL_SECONDS = 0.05
"""Longest wait for one delivery before the others are looked at again."""


@dataclass(frozen=True, slots=True)
class Budget:
    """How hard a batch is tried.

    Attributes:
        in_flight: most batches that are unacknowledged at a time; bounds the memory too.
        attempts: most sends of one batch.
        seconds: since its first send, after which a failed batch is not sent again.
        attempt_seconds: after which an unanswered send counts as failed.
        pause: seconds before the first resend; doubled each time.
        longest_pause: seconds; the most that doubling leads to.
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
class _Parcel:
    sealed: Sealed
    first: float
    due: float
    attempts: int = 0
    delivery: Delivery | None = None
    sent: float = 0.0


class Courier:
    """Sends batches and sees each through to its acknowledgement or its failure.

    Args:
        names: topics of the plan.
        sink: appends; stays the caller's to close.
        budget: see :class:`Budget`.
        spool: keeps batches on disk until they are acknowledged; failed ones stay there.
        observer: is told what happens.
        clock: monotonic time and sleep.

    Attributes:
        fatal: the first error that no resend can cure, or None.
        trouble: the first thing that went wrong for good: the fatal error, a batch whose budget ran
            out, or a spool that could not be written; or None.
    """

    def __init__(
        self,
        names: TopicNames,
        sink: Sink,
        budget: Budget | None = None,
        *,
        spool: Spool | None = None,
        observer: Observer | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._names = names
        self._sink = sink
        self._budget = budget or Budget()
        self._spool = spool
        self._accounts = Accounts(observer)
        self._clock = clock or SystemClock()
        self._parcels: deque[_Parcel] = deque()
        self.fatal: FatalError | None = None
        self.trouble: CalmstreamError | None = None

    @property
    def totals(self) -> Totals:
        """Counts so far."""
        return self._accounts.totals()

    @property
    def in_flight(self) -> int:
        """Batches handed over and neither acknowledged nor given up."""
        return len(self._parcels)

    @property
    def full(self) -> bool:
        """Whether :meth:`submit` would have to wait."""
        return self.in_flight >= self._budget.in_flight

    def submit(self, sealed: Sealed) -> None:
        """Take charge of a batch and send it; blocks while ``in_flight`` is at its bound.

        Where the spool cannot be written the batch is sent without, since a report that is not sent
        is lost as surely as one that a crash takes; ``trouble`` says so.
        """
        self._accounts.taken(sealed.group, sealed.n)
        self._store(sealed)
        while self.full:
            self.turn(POLL_SECONDS)
        now = self._clock.monotonic()
        parcel = _Parcel(sealed, now, now)
        self._parcels.append(parcel)
        self._attempt(parcel)
        self._accounts.in_flight(self.in_flight)

    def turn(self, seconds: float = 0.0) -> None:
        """Settle what is decided and resend what is due; if nothing is, wait up to ``seconds``."""
        if self._settle_all() or seconds <= 0 or not self._parcels:
            return
        on_its_way = next((p.delivery for p in self._parcels if p.delivery is not None), None)
        if on_its_way is None:
            pause = min(p.due for p in self._parcels) - self._clock.monotonic()
            self._clock.sleep(min(seconds, max(pause, 0.0)))
            return
        with contextlib.suppress(RecoverableError, FatalError):
            on_its_way.wait(seconds)  # whatever it says, the next turn settles it

    def drain(self, seconds: float | None = None) -> None:
        """Return when nothing is in flight.

        Args:
            seconds: after which the rest is given up; None leaves that to the budget.
        """
        deadline = math.inf if seconds is None else self._clock.monotonic() + seconds
        while self._parcels:
            over = self._clock.monotonic() >= deadline
            self.turn(0.0 if over else POLL_SECONDS)  # what is acknowledged by now is not given up
            if over and self._parcels:
                self._abandon(f"{self.in_flight} batches not acknowledged within {seconds:g} s")

    def _abandon(self, why: str) -> None:
        self.trouble = self.trouble or RecoverableError(why)
        for parcel in list(self._parcels):
            self._failed(parcel)
        self._accounts.in_flight(0)

    def _store(self, sealed: Sealed) -> None:
        if self._spool is not None:
            try:
                self._spool.store(sealed)
            except RecoverableError as error:
                self.trouble = self.trouble or error

    def _settle_all(self) -> bool:
        now = self._clock.monotonic()
        moved = False
        for parcel in list(self._parcels):
            if parcel.delivery is None:
                if now >= parcel.due:
                    self._attempt(parcel)
                    moved = True
            elif parcel.delivery.done() or now - parcel.sent > self._budget.attempt_seconds:
                self._settle(parcel, parcel.delivery)
                moved = True
        if moved:
            self._accounts.in_flight(self.in_flight)
        return moved

    def _attempt(self, parcel: _Parcel) -> None:
        sealed = parcel.sealed
        if parcel.attempts:
            self._accounts.retried(sealed.group)
        parcel.attempts += 1
        parcel.sent = self._clock.monotonic()
        try:
            parcel.delivery = self._sink.send(
                self._names.reports(sealed.group), sealed.batch_id, sealed.value
            )
        except FatalError as error:
            self._refused(parcel, error)
        except RecoverableError as error:
            self._again(parcel, error)

    def _settle(self, parcel: _Parcel, delivery: Delivery) -> None:
        try:
            delivery.wait(0.0)
        except FatalError as error:
            self._refused(parcel, error)
        except RecoverableError as error:
            self._again(parcel, error)
        else:
            self._delivered(parcel)

    def _delivered(self, parcel: _Parcel) -> None:
        self._parcels.remove(parcel)
        self._accounts.sent(parcel.sealed.group, parcel.sealed.n)
        if self._spool is not None:
            self._spool.remove(parcel.sealed)

    def _again(self, parcel: _Parcel, error: RecoverableError) -> None:
        """Plan a resend of the same bytes, unless the budget is spent."""
        now = self._clock.monotonic()
        parcel.delivery = None
        pause = min(self._budget.pause * 2 ** (parcel.attempts - 1), self._budget.longest_pause)
        parcel.due = now + pause
        spent = parcel.due - parcel.first > self._budget.seconds
        if parcel.attempts >= self._budget.attempts or spent:
            self.trouble = self.trouble or error
            self._failed(parcel)

    def _refused(self, parcel: _Parcel, error: FatalError) -> None:
        self.fatal = self.fatal or error
        self.trouble = self.trouble or error
        self._failed(parcel)

    def _failed(self, parcel: _Parcel) -> None:
        self._parcels.remove(parcel)
        self._accounts.failed(parcel.sealed.group, parcel.sealed.n, Failure.UNDELIVERED)
