"""``calmstream produce``: a population of simulated devices reports over a broker, paced."""

from __future__ import annotations

import contextlib
import math
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from broker.clock import Clock, SystemClock
from broker.names import TopicNames
from broker.transport import Broker
from estimators.domain import Codes
from estimators.errors import CalmstreamError, InvalidInput
from estimators.plan import Plan
from estimators.randomness import Randomness
from producer.gateway.batcher import DEFAULT_LINGER, DEFAULT_SIZE
from producer.gateway.encoding import EncodedBatch, permutation
from producer.gateway.sender import POLL_SECONDS, BatchSender, Budget
from producer.gateway.spool import Spool
from producer.gateway.totals import Observer, Totals
from producer.simulation.fleet import Fleet
from producer.simulation.simulate import Indices, Population

NAP_SECONDS = 0.2
"""Longest sleep between two checks of deliveries, the stop signal and the window."""

STOP_SECONDS = 20.0
"""Longest wait for deliveries after the producer has been asked to stop."""

CLOSE_SECONDS = 2.0
SHOW_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Summary:
    """State of a run: its progress, and at the end its result.

    Attributes:
        devices: size of the population.
        reported: reports that devices of this run have made.
        resent: reports found in the spool, left there by an earlier run.
        windows: windows in which a device reported.
        sent: reports acknowledged, those of the spool included.
        failed: reports given up; still in the spool where there is one.
        batches: batches acknowledged.
        retries: sends repeated.
        in_flight: batches not yet acknowledged.
        kept: whether the devices are kept in a file; otherwise the next run has other devices.
        unasked: devices that the run left without their report: under ``once`` those that may still
            make it, under ``w-event`` reports (a device's in one window) whose window ended first.
            Known at the end.
        expired: whether the plan's end was the end of the run.
        error: the error that stopped the run, or None.
    """

    devices: int
    reported: int = 0
    resent: int = 0
    windows: int = 0
    sent: int = 0
    failed: int = 0
    batches: int = 0
    retries: int = 0
    in_flight: int = 0
    kept: bool = False
    unasked: int = 0
    expired: bool = False
    error: CalmstreamError | None = None


Progress = Callable[[Summary], None]


def produce(
    plan: Plan,
    broker: Broker,
    names: TopicNames,
    codes: Codes,
    *,
    rate: float | None = None,
    batch_size: int = DEFAULT_SIZE,
    linger: float = DEFAULT_LINGER,
    windows: int | None = None,
    devices: str | Path | None = None,
    spool: str | Path | None = None,
    budget: Budget | None = None,
    observer: Observer | None = None,
    progress: Progress | None = None,
    stop: threading.Event | None = None,
    clock: Clock | None = None,
    randomness: Randomness | None = None,
) -> Summary:
    """Let every row of a table report as a device, in real time, until all have or the plan ends.

    Under ``once`` the devices report one after another in random order, and the run ends when all
    have. Under ``w-event`` each reports in its slot's windows, and the run ends with the plan, with
    ``windows`` or with ``stop``. A plan that has not started is waited for. The run stops asking
    devices as soon as a batch is given up, so that their one report is not wasted.

    Args:
        plan: the plan that asks.
        broker: gives the sink; stays the caller's to close.
        names: the plan's topics, which must exist.
        codes: shape (n, d), uint16.
        rate: reports a second, paced evenly; None is as fast as possible.
        batch_size: most reports in a batch.
        linger: with a rate, the seconds' worth of devices that report together, hence how full
            batches get.
        windows: most windows to go on for.
        devices: file that keeps the devices' secrets and ledgers, so that a later run has the same
            devices, so that none reports twice; None makes new devices for this run only.
        spool: directory that keeps batches until they are acknowledged; what is there goes first.
        budget: how hard a batch is tried.
        observer: receives what happens to batches.
        progress: is called with the state of things several times a second.
        stop: set it to stop asking devices, await deliveries for 20 s and return.
        clock: time and sleep.
        randomness: the operating system's by default; seeded in tests only.

    Returns:
        The final counts; ``error`` is set and ``failed`` positive where something was given up.

    Raises:
        InvalidInput: arguments or records that do not fit, or a plan that is over.
        FatalError: a damaged devices file or spool.
        RecoverableError: the devices file is in use or cannot be written.
    """
    _check_pace(rate, batch_size, linger, windows)
    stop = stop or threading.Event()
    clock = clock or SystemClock(stop)
    _refuse_when_over(plan, clock.now_ms())
    with _fleet(plan, len(codes), devices) as fleet:
        population = Population(plan, codes, fleet=fleet, randomness=randomness)
        kept = Spool(spool, plan) if spool is not None else None
        sink = broker.sink()
        try:
            sender = BatchSender(names, sink, budget, spool=kept, observer=observer, clock=clock)
            run = _Run(
                population,
                sender,
                clock=clock,
                stop=stop,
                rate=rate,
                batch_size=batch_size,
                linger=linger,
                progress=progress,
            )
            run.summary = replace(run.summary, kept=devices is not None)
            run.resend(kept)
            run.ask(windows)
            return run.finish()
        finally:
            # Everything has been awaited or given up by now.
            sink.close(CLOSE_SECONDS)


def _check_pace(rate: float | None, batch_size: int, linger: float, windows: int | None) -> None:
    if rate is not None and not rate > 0:
        raise InvalidInput(f"rate: expected a positive number of reports a second, got {rate}")
    if linger <= 0 or batch_size < 1 or (windows is not None and windows < 1):
        raise InvalidInput("linger, batch size and windows must be positive")


def _refuse_when_over(plan: Plan, now: int) -> None:
    """Refuse a plan that has expired. ``now`` in milliseconds."""
    if plan.window_at(now) >= plan.windows:
        end = datetime.fromtimestamp(plan.expires, UTC)
        raise InvalidInput(f"plan {plan.name} is over: it expired at {end:%Y-%m-%d %H:%M:%S} UTC")


@contextlib.contextmanager
def _fleet(plan: Plan, n: int, path: str | Path | None) -> Iterator[Fleet | None]:
    if path is None:
        yield None
    else:
        with Fleet.open(path, n, plan.lineage) as fleet:
            yield fleet


class _Run:
    """One call of :func:`produce`."""

    def __init__(
        self,
        population: Population,
        sender: BatchSender,
        *,
        clock: Clock,
        stop: threading.Event,
        rate: float | None,
        batch_size: int,
        linger: float,
        progress: Progress | None,
    ) -> None:
        self._population = population
        self._plan = population.plan
        self._sender = sender
        self._clock = clock
        self._stop = stop
        self._rate = rate
        self._batch_size = batch_size
        # Without a rate, enough devices at once to fill a batch of every group, and so many that
        # the ledgers are not written more than some twenty times.
        many = max(batch_size * len(self._plan.groups), len(population) // 20)
        self._slab = many if rate is None else max(1, round(rate * linger))
        self._progress = progress
        self._next = clock.monotonic()
        self._seen: set[int] = set()
        self._shown = -math.inf
        self._stopped = math.inf
        self._missed = 0
        self.summary = Summary(len(population))

    def resend(self, spool: Spool | None) -> None:
        """Send the batches that an earlier run left."""
        for batch in spool.pending() if spool is not None else ():
            self.summary = replace(self.summary, resent=self.summary.resent + batch.n)
            self._submit(batch)

    def ask(self, windows: int | None) -> None:
        """Let devices report, window after window."""
        first = max(self._window(), 0)
        last = self._plan.windows if windows is None else min(first + windows, self._plan.windows)
        while self._going() and (window := self._window()) < last:
            if window >= 0:
                if self._population.finished(window):
                    return
                self._ask_window(window)
            if self._window() == window:
                self._sleep_until_end_of(window)
        over = self._going() and self._window() >= self._plan.windows
        self.summary = replace(self.summary, expired=over)

    def finish(self) -> Summary:
        """Wait for the batches in flight and return the summary."""
        while self._sender.in_flight:
            self._sender.step(POLL_SECONDS)
            self._abandon_in_time()
            self._report()
        self._shown = -math.inf
        self._report()
        self.summary = replace(self.summary, error=self._sender.trouble, unasked=self._unasked())
        return self.summary

    def _unasked(self) -> int:
        if self._plan.guarantee.kind == "once":
            return len(self._population.due(self._plan.windows - 1))
        return self._missed

    def _submit(self, batch: EncodedBatch) -> None:
        """Hand a batch over and wait for room, but not for long after a stop was requested."""
        while self._sender.full:
            self._sender.step(POLL_SECONDS)
            self._abandon_in_time()
            self._report()
        self._sender.submit(batch)
        self._report()

    def _abandon_in_time(self) -> None:
        now = self._clock.monotonic()
        if self._stop.is_set():
            self._stopped = min(self._stopped, now)
        if now - self._stopped > STOP_SECONDS:
            self._sender.drain(0.0)

    def _ask_window(self, window: int) -> None:
        due = self._population.due(window)
        due = due[permutation(len(due), self._population.randomness)]
        for low in range(0, len(due), self._slab):
            if not self._going() or self._window() != window:
                self._missed += len(due) - low
                return
            self._ask_devices(window, due[low : low + self._slab])

    def _ask_devices(self, window: int, devices: Indices) -> None:
        self._seen.add(window)
        self.summary = replace(self.summary, windows=len(self._seen))
        for batch in self._population.reports(window, np.asarray(devices), self._batch_size):
            self.summary = replace(self.summary, reported=self.summary.reported + batch.n)
            self._submit(batch)
        if self._rate is not None:
            # Paced from now, not from the start, so that no burst follows a stall.
            self._next = max(self._next, self._clock.monotonic() - 1.0) + len(devices) / self._rate
            self._sleep(lambda: self._next - self._clock.monotonic())

    def _sleep_until_end_of(self, window: int) -> None:
        if self._population.finished(max(window, 0)):
            return
        end = self._plan.window_end(window)
        self._sleep(lambda: (end - self._clock.now_ms()) / 1000)

    def _sleep(self, left: Callable[[], float]) -> None:
        while self._going() and (seconds := left()) > 0:
            self._sender.step()
            self._report()
            self._clock.sleep(min(seconds, NAP_SECONDS))

    def _going(self) -> bool:
        return not self._stop.is_set() and self._sender.trouble is None

    def _window(self) -> int:
        return self._plan.window_at(self._clock.now_ms())

    def _report(self) -> None:
        now = self._clock.monotonic()
        if now - self._shown < SHOW_SECONDS:
            return
        self._shown = now
        self._take(self._sender.totals)
        if self._progress is not None:
            self._progress(self.summary)

    def _take(self, totals: Totals) -> None:
        self.summary = replace(
            self.summary,
            sent=totals.reports_sent,
            failed=totals.reports_failed,
            batches=totals.batches_sent,
            retries=totals.retries,
            in_flight=self._sender.in_flight,
        )
