"""The sink of one plan, and the target that the sinks of many plans share."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass

import structlog

from calmstream.broker.names import TopicNames
from calmstream.broker.topic_watch import EVERY_SECONDS
from calmstream.broker.transport import Broker, Reader, Record, Topics
from calmstream.common.clock import Clock
from calmstream.common.errors import FatalError, RecoverableError
from calmstream.consumer.metrics.registry import plan_label
from calmstream.consumer.runtime.health import RoleHealth
from calmstream.consumer.runtime.retry import RetryBudget
from calmstream.consumer.runtime.service import Role
from calmstream.consumer.runtime.topic_records import TopicRecords, watch_of_snapshots
from calmstream.consumer.sink.batch import BATCH_ROWS, SetBatch
from calmstream.consumer.sink.metrics import SinkMetrics
from calmstream.consumer.sink.stored import StoredSet
from calmstream.consumer.sink.target import Stored, Target, opened
from calmstream.estimators.plan import Plan

PLAN_ROWS = BATCH_ROWS // 16
"""Number of cells of one plan that wait at most, but for the last set: 8,192. Many plans may wait
at the same time."""

_FIRST_PAUSE_SECONDS = 1.0
_LONGEST_PAUSE_SECONDS = 30.0


class SharedTarget:
    """A target that the sinks of many plans use from several threads, one after another."""

    def __init__(self, target: Target) -> None:
        self.name = target.name
        self._target = target
        self._lock = threading.Lock()
        self._ending = False

    def check_plan(self, plan: Plan) -> None:
        """See `Target`."""
        self._target.check_plan(plan)

    def open(self) -> None:
        """See the protocol."""
        with self._lock:
            self._target.open()

    def store(self, sets: Sequence[StoredSet]) -> Stored:
        """See the protocol; waits for the calls of other threads."""
        with self._lock:
            if self._ending:
                raise RecoverableError(f"{self.name}: the sink is stopping")
            return self._target.store(sets)

    def abort(self) -> None:
        """Let the present call and all later ones fail soon."""
        self._ending = True
        self._target.abort()

    def close(self) -> None:
        """See the protocol."""
        with self._lock:
            self._target.close()


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


class SinkWorker:
    """Stores the sets of a plan: a `PlanWorker`.

    It reads the topic from its beginning at every start. Sets that are stored already are compared
    by their revision and left alone, so no position has to be kept.

    Args:
        once: whether it is over at the end of the topic.
        poll_seconds: maximum time for which one poll waits for records.
        retry_seconds: maximum time for which calls to the broker may fail; with ``once`` also calls
            to the target. Otherwise these are repeated without limit.
        batch_rows: number of cells that are stored without waiting for the end of the topic.
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
        poll_seconds: float = 0.5,
        check_seconds: float = EVERY_SECONDS,
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
        self._poll_seconds = poll_seconds
        self._check_seconds = check_seconds
        self._retry_seconds = retry_seconds
        self._retries = RetryBudget(clock, retry_seconds)
        self._storing = RetryBudget(clock, retry_seconds)
        self._log = structlog.get_logger("calmstream.sink").bind(plan=plan_label(plan))
        self._batch = SetBatch(plan, names, clock, self._log.warning, batch_rows)
        self._reader: Reader | None = None
        self._topics: Topics | None = None
        self._pause = 0.0
        self._resume_at = clock.monotonic()

    def start(self, stop: threading.Event) -> None:  # noqa: ARG002 - its waits are short
        """Check the plan against the target, and begin to read."""
        self._target.check_plan(self._plan)
        self._topics = topics = self._broker.topics()
        self._reader = self._broker.reader()
        self._source = TopicRecords(self._reader, topics, self._names.snapshots)
        self._source.start()
        self._watch = watch_of_snapshots(
            self._plan,
            self._names,
            topics,
            self._clock,
            every_seconds=self._check_seconds,
            retry_seconds=self._retry_seconds,
        )
        self.health.ready()

    def turn(self) -> bool:
        """Take what has arrived; store it when nothing more has, or when it is much."""
        self.health.turned()
        self._watch.turn()
        self.health.watched(self._watch.silent_seconds, self._watch.fault)
        pause = self._resume_at - self._clock.monotonic()
        if pause > 0:
            self._clock.sleep(min(pause, self._poll_seconds))
            return False
        try:
            records = self._records()
            at_end = self._once and not records and not self._batch.sets and self._source.at_end()
        except RecoverableError as error:
            if self._retries.failed():
                seconds = self._retries.failing_seconds
                raise FatalError(f"no success for {seconds:.0f} s: {error}") from error
            self._clock.sleep(self._poll_seconds)
            return False
        self._retries.succeeded()
        self.totals.at_end = at_end
        for record in records:
            self.totals.read += self._batch.take(record)
            if self._batch.full() and not self._pause:
                self._store()
        if not records and self._batch.sets:
            self._store()
        return bool(records) and not self._pause

    def finish(self) -> None:
        """Store what was read, at the first attempt; the topic keeps it for the next start."""
        if self._batch.sets:
            self._store()
        self.abandon()

    def abandon(self) -> None:
        """End; what was read is in the topic."""
        for client in (self._reader, self._topics):
            if client is not None:
                client.close()

    def over(self) -> bool:
        """Return whether all is stored that was asked for; a replay may always publish more."""
        return self.totals.at_end

    def _records(self) -> list[Record]:
        """Return what has arrived, unless sets wait to be stored first."""
        assert self._reader is not None
        if self._pause or self._batch.full():
            return []
        # While sets wait for the end, a short poll finds it sooner.
        waits = self._batch.sets or self._once
        return self._reader.poll(min(self._poll_seconds, 0.1) if waits else self._poll_seconds)

    def _store(self) -> None:
        """Store the batch, or pause."""
        try:
            stored = self._target.store(self._batch.sets)
        except RecoverableError as error:
            self._failed(error)
            return
        self._pause = 0.0
        self._storing.succeeded()
        self._metrics.stored(stored, self._batch.sets)
        self._batch.clear()
        self.health.ready()
        self.totals.stored += stored.sets
        self.totals.rows += stored.rows
        if stored.sets:
            self._log.info("stored", sets=stored.sets, rows=stored.rows)

    def _failed(self, error: RecoverableError) -> None:
        """Pause before the next attempt."""
        self._pause = min(2 * self._pause or _FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS)
        self._resume_at = self._clock.monotonic() + self._pause
        waiting = len(self._batch.sets)
        self._metrics.failed(waiting)
        self.health.not_ready("the target does not answer")
        self._log.warning(
            "storing failed and is repeated",
            error=str(error),
            waiting_sets=waiting,
            pause_seconds=self._pause,
        )
        if self._storing.failed() and self._once:
            raise FatalError(f"{error}; gave up after {self._retry_seconds:g} s") from None


class WithTarget:
    """A role that opens the target, and lets another role work with it."""

    def __init__(self, role: Role, target: Target) -> None:
        self.name = role.name
        self.health: RoleHealth = role.health
        self._role = role
        self._target = target

    def run(self, stop: threading.Event) -> None:
        """Store sets until ``stop`` is set."""
        with opened(self._target, stop):
            structlog.get_logger("calmstream.sink").info("target is open", target=self._target.name)
            self._role.run(stop)
