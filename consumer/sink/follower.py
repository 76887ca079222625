"""Reads the snapshots of a plan and stores each complete set in a target."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from dataclasses import dataclass

import structlog

from calmstream.broker.names import TopicNames
from calmstream.broker.transport import Broker
from calmstream.common.clock import Clock
from calmstream.common.errors import FatalError, RecoverableError
from calmstream.consumer.runtime.health import RoleHealth
from calmstream.consumer.runtime.retry import RetryBudget
from calmstream.consumer.runtime.topic_records import TopicRecords, watch_of_snapshots
from calmstream.consumer.sink.batch import BATCH_ROWS, SetBatch
from calmstream.consumer.sink.metrics import SinkMetrics
from calmstream.consumer.sink.target import Target, opened
from calmstream.estimators.plan import Plan

_POLL_SECONDS = 0.5
_FIRST_PAUSE_SECONDS = 1.0
_LONGEST_PAUSE_SECONDS = 30.0


@dataclass
class SinkTotals:
    """What a sink has done.

    Attributes:
        read: number of complete sets that were read.
        stored: number of sets that were stored.
        rows: number of their cells.
        at_end: whether everything up to an end of the topic was stored.
    """

    read: int = 0
    stored: int = 0
    rows: int = 0
    at_end: bool = False


class SinkFollower:
    """A role that stores the sets of a plan until it is stopped, or until the topic's end.

    It reads the topic from its beginning at every start. Sets that are stored already are compared
    by their revision and left alone, so no position has to be kept.

    Args:
        retry_seconds: maximum time for which calls to the broker may fail; with ``once`` also calls
            to the target. Otherwise these are repeated without limit.
        batch_rows: number of cells that are stored without waiting for the end of the topic.

    Attributes:
        health: the role's health, which the web server reports.
        totals: what was done.
    """

    name = "sink"

    def __init__(
        self,
        plan: Plan,
        broker: Broker,
        names: TopicNames,
        target: Target,
        clock: Clock,
        metrics: SinkMetrics,
        *,
        once: bool = False,
        retry_seconds: float = 60.0,
        batch_rows: int = BATCH_ROWS,
    ) -> None:
        self.health = RoleHealth(self.name, clock)
        self.totals = SinkTotals()
        self._plan = plan
        self._broker = broker
        self._names = names
        self._target = target
        self._clock = clock
        self._metrics = metrics
        self._once = once
        self._retry_seconds = retry_seconds
        self._log = structlog.get_logger("calmstream.sink")
        self._batch = SetBatch(plan, names, clock, self._log.warning, batch_rows)

    def run(self, stop: threading.Event) -> None:
        """Store sets until ``stop`` is set or, with ``once``, until the end of the topic."""
        with opened(self._target, stop):
            self._log.info("target is open", target=self._target.name)
            self._follow(stop)

    def _follow(self, stop: threading.Event) -> None:
        with ExitStack() as stack:
            topics, reader = self._broker.topics(), self._broker.reader()
            stack.callback(topics.close)
            stack.callback(reader.close)
            source = TopicRecords(reader, topics, self._names.snapshots)
            self._watch = watch_of_snapshots(
                self._plan,
                self._names,
                topics,
                self._clock,
                retry_seconds=self._retry_seconds,
            )
            self.health.ready()
            for record in source.records(
                self._wants_end, not self._once, stop, _POLL_SECONDS, self._retry_seconds
            ):
                if record is not None:
                    self.totals.read += self._batch.take(record)
                if self._batch.full() or (record is None and self._batch.sets):
                    self._store(stop)
                self.totals.at_end = record is None and not self._batch.sets
        if self._batch.sets:
            self._store(stop)

    def _wants_end(self) -> bool:
        """Return whether sets wait for the end of the topic; the source asks before each poll."""
        self.health.turned()
        self._watch.turn()
        self.health.watched(self._watch)
        return bool(self._batch.sets)

    def _store(self, stop: threading.Event) -> None:
        """Store the batch; repeat what fails, with growing pauses.

        A stopped sink gives up after one attempt: the topic keeps the sets for the next start.
        """
        pause, budget = _FIRST_PAUSE_SECONDS, RetryBudget(self._clock, self._retry_seconds)
        while True:
            self.health.turned()
            try:
                stored = self._target.store(self._batch.sets)
                break
            except RecoverableError as error:
                self._failed(error, pause)
                if self._once and budget.failed():
                    raise FatalError(f"{error}; gave up after {self._retry_seconds:g} s") from None
            if self._pause(stop, pause):
                return
            pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)
        self._metrics.stored(stored, self._batch.sets)
        self._batch.clear()
        self.health.ready()
        self.totals.stored += stored.sets
        self.totals.rows += stored.rows
        if stored.sets:
            self._log.info("stored", sets=stored.sets, rows=stored.rows)

    def _failed(self, error: RecoverableError, pause: float) -> None:
        self._metrics.failed(len(self._batch.sets))
        self.health.not_ready("the target does not answer")
        self._log.warning(
            "storing failed and is repeated",
            error=str(error),
            waiting_sets=len(self._batch.sets),
            pause_seconds=pause,
        )

    def _pause(self, stop: threading.Event, seconds: float) -> bool:
        """Wait; return whether the role was stopped."""
        return stop.wait(seconds)
