"""The command ``calmstream produce``: simulated devices report over a broker in real time."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np

from calmstream.broker.names import TopicNames
from calmstream.broker.topic_facts import faults, refuse
from calmstream.broker.topic_watch import TopicWatch, described, watch_plan
from calmstream.broker.transport import Broker
from calmstream.common.clock import Clock, SystemClock
from calmstream.common.errors import CalmstreamError, FatalError, InvalidInput, RecoverableError
from calmstream.estimators.domain import Codes
from calmstream.estimators.plan import Plan
from calmstream.estimators.randomness import Randomness
from calmstream.producer.gateway.encoding import DEFAULT_SIZE, permutation
from calmstream.producer.gateway.metrics import Failure, GatewayTotals
from calmstream.producer.gateway.sender import POLL_SECONDS, BatchSender
from calmstream.producer.simulation.simulate import Indices, Population

NAP_SECONDS = 0.2  # between two looks at deliveries, stop signal and window
GIVE_UP_SECONDS = 120.0  # after its first send a batch that failed is not sent again
STOP_SECONDS = 20.0  # longest wait for deliveries after a stop
CLOSE_SECONDS = 2.0  # after a normal end every delivery has ended before


@dataclass(frozen=True, slots=True)
class ProduceSummary:
    """The result of a run."""

    devices: int
    reported: int = 0
    sent: int = 0
    failed: int = 0
    batches: int = 0
    retries: int = 0
    missing: int = 0  # devices that may still report (once), or reports whose turn passed
    expired: bool = False  # the run ended because the plan ended
    error: CalmstreamError | None = None


def produce(
    plan: Plan,
    broker: Broker,
    names: TopicNames,
    codes: Codes,
    *,
    records: Callable[[int], Codes] | None = None,
    rate: float | None = None,
    batch_size: int = DEFAULT_SIZE,
    windows: int | None = None,
    totals: GatewayTotals | None = None,
    progress: Callable[[int], object] = lambda _: None,
    stop: threading.Event | None = None,
    clock: Clock | None = None,
    randomness: Randomness | None = None,
) -> ProduceSummary:
    """Let every row of ``codes`` report as one device, in real time, as a `Population`.

    Under ``once`` until all have reported, else until the plan, ``windows`` or ``stop`` ends it.
    ``progress`` gets the number of acknowledged reports.
    After a lost batch no other device reports: the broker may be down, and it reports only once.
    """
    stop = stop or threading.Event()
    clock = clock or SystemClock(stop)
    if plan.window_at(clock.now_ms()) >= plan.windows:
        end = datetime.fromtimestamp(plan.expires, UTC)
        raise InvalidInput(f"plan {plan.name} is over: it expired at {end:%Y-%m-%d %H:%M:%S} UTC")
    population = Population(plan, codes, randomness=randomness, records=records)
    topics, sink = broker.topics(), broker.sink()
    try:
        found = described(topics, names.all_reports)
        refuse(x for x in faults(plan, names, found, names.all_reports) if x.stops)
        watch = watch_plan(plan, names, topics, found, clock)
        sender = BatchSender(names, lambda: sink, totals=totals, clock=clock)
        run = _Run(population, sender, watch, clock, stop, rate, batch_size, progress)
        run.let_report(windows)
        return run.finish()
    finally:
        # After a normal end this does not wait, because every delivery has ended before.
        sink.close(CLOSE_SECONDS)


@dataclass(slots=True, eq=False)
class _Run:
    population: Population
    sender: BatchSender
    watch: TopicWatch
    clock: Clock
    stop: threading.Event
    rate: float | None
    batch_size: int
    progress: Callable[[int], object]
    reported: int = 0
    missing: int = 0
    expired: bool = False
    uncounted: str = ""
    next_time: float = 0.0
    stopped_at: float = math.inf

    def __post_init__(self) -> None:
        self.next_time = self.clock.monotonic()

    @property
    def plan(self) -> Plan:
        return self.population.plan

    @property
    def chunk(self) -> int:
        """Devices that report together: those of a second, or what fills a batch of every group."""
        full = self.batch_size * len(self.plan.groups)
        return full if self.rate is None else max(1, round(self.rate))

    def let_report(self, windows: int | None) -> None:
        first = max(self._window(), 0)
        last = self.plan.windows if windows is None else min(first + windows, self.plan.windows)
        due_next = first
        while self._going() and (window := self._window()) < last:
            if window >= 0:
                if self.population.finished(window):
                    return
                self._count_missed(range(due_next, window))
                self._let_window_report(window)
                due_next = window + 1
            # The reports can take longer than the window.
            if self._window() == window:
                self._sleep_until_end_of(window)
        if self._going():
            self._count_missed(range(due_next, last))
        self.expired = self._going() and self._window() >= self.plan.windows

    def finish(self) -> ProduceSummary:
        self._wait_while(lambda: self.sender.in_flight > 0)
        if self.plan.guarantee.kind == "once":
            self.missing = len(self.population.due(self.plan.windows - 1))
        stopped_by = FatalError(self.uncounted) if self.uncounted else None
        totals = self.sender.totals
        return ProduceSummary(
            devices=len(self.population),
            reported=self.reported,
            sent=totals.reports_sent,
            failed=totals.reports_failed,
            batches=totals.batches_sent,
            retries=totals.retries,
            missing=self.missing,
            expired=self.expired,
            error=self.sender.error or stopped_by,
        )

    def _wait_while(self, busy: Callable[[], bool]) -> None:
        """Wait for the sender; 20 s after a stop give up what is in flight."""
        while busy():
            self._step(POLL_SECONDS)
            now = self.clock.monotonic()
            if self.stop.is_set():
                self.stopped_at = min(self.stopped_at, now)
            if now - self.stopped_at > STOP_SECONDS:
                self._step()
                late = f"{self.sender.in_flight} batches not acknowledged within {STOP_SECONDS:g} s"
                self.sender.give_up_all(RecoverableError(late))

    def _step(self, seconds: float = 0.0) -> None:
        """Let the sender work; a batch is given up for good reasons, or after two minutes."""
        self.sender.step(seconds)
        for batch, error in self.sender.take_failed():
            late = batch.due - batch.first > GIVE_UP_SECONDS
            if late or isinstance(error, FatalError):
                self.sender.give_up(batch, Failure.UNDELIVERED, error)
        self.progress(self.sender.totals.reports_sent)

    def _let_window_report(self, window: int) -> None:
        due = self.population.due(window)
        due = due[permutation(len(due), self.population.randomness)]
        for low in range(0, len(due), self.chunk):
            if not self._going() or self._window() != window:
                self.missing += len(due) - low
                return
            self._let_devices_report(window, due[low : low + self.chunk])

    def _count_missed(self, windows: range) -> None:
        """Count the reports of windows that passed while the run did something else."""
        if self.plan.guarantee.kind != "once":
            self.missing += sum(len(self.population.due(window)) for window in windows)

    def _let_devices_report(self, window: int, devices: Indices) -> None:
        for batch in self.population.reports(window, np.asarray(devices), self.batch_size):
            self.reported += batch.n
            self._wait_while(lambda: self.sender.full)
            self.sender.submit(batch)
            self._step()
        if self.rate is not None:
            # After an interruption, at most one second of reports is made up for, so that there is
            # no long burst.
            earliest = self.clock.monotonic() - 1.0
            self.next_time = max(self.next_time, earliest) + len(devices) / self.rate
            self._sleep(lambda: self.next_time - self.clock.monotonic())

    def _sleep_until_end_of(self, window: int) -> None:
        if self.population.finished(max(window, 0)):
            return
        end = self.plan.window_end(window)
        self._sleep(lambda: (end - self.clock.now_ms()) / 1000)

    def _sleep(self, remaining: Callable[[], float]) -> None:
        while self._going() and (seconds := remaining()) > 0:
            self._step()
            self.clock.sleep(min(seconds, NAP_SECONDS))

    def _going(self) -> bool:
        if not self.uncounted:
            try:
                self.watch.turn()
                self.uncounted = self.watch.fault
            except FatalError as error:
                self.uncounted = str(error)
        return not (self.stop.is_set() or self.sender.error or self.uncounted)

    def _window(self) -> int:
        return self.plan.window_at(self.clock.now_ms())
