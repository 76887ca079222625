"""The sinks of many plans, which share one target."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import structlog

from calmstream.broker.names import TopicNames
from calmstream.broker.transport import Broker, Reader, Topics
from calmstream.common.clock import Clock
from calmstream.common.errors import FatalError, RecoverableError
from calmstream.consumer.metrics.registry import plan_label
from calmstream.consumer.runtime.health import RoleHealth, Verdict
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


class PlanSink:
    """The sink of one plan of many: a ``PlanWorker`` of ``served_plan``.

    It begins with the oldest snapshot, as `SinkFollower` does.

    Args:
        retry_seconds: maximum time for which calls to the broker may fail. Calls to the target are
            repeated without limit.
    """

    def __init__(
        self,
        plan: Plan,
        broker: Broker,
        names: TopicNames,
        target: SharedTarget,
        clock: Clock,
        metrics: SinkMetrics,
        *,
        check_seconds: float,
        retry_seconds: float,
    ) -> None:
        self._check_seconds = check_seconds
        self._plan = plan
        self._broker = broker
        self._names = names
        self._target = target
        self._clock = clock
        self._metrics = metrics
        self._retry_seconds = retry_seconds
        self._retries = RetryBudget(clock, retry_seconds)
        self._log = structlog.get_logger("calmstream.sink").bind(plan=plan_label(plan))
        self._batch = SetBatch(plan, names, clock, self._log.warning, PLAN_ROWS)
        self._reader: Reader | None = None
        self._topics: Topics | None = None
        self._pause = 0.0
        self._resume_at = clock.monotonic()

    def start(self) -> None:
        """Check the plan against the target, and begin to read."""
        self._target.check_plan(self._plan)
        self._topics = topics = self._broker.topics()
        self._reader = self._broker.reader()
        TopicRecords(self._reader, topics, self._names.snapshots).start()
        self._watch = watch_of_snapshots(
            self._plan,
            self._names,
            topics,
            self._clock,
            every_seconds=self._check_seconds,
            retry_seconds=self._retry_seconds,
        )

    def turn(self) -> bool:
        """Take what has arrived; store it when nothing more has, or when it is much."""
        assert self._reader is not None
        self._watch.turn()
        if self._clock.monotonic() < self._resume_at:
            return False
        try:
            records = [] if self._pause or self._batch.full() else self._reader.poll(0.0)
        except RecoverableError as error:
            if self._retries.failed():
                seconds = self._retries.failing_seconds
                raise FatalError(f"no success for {seconds:.0f} s: {error}") from error
            return False
        self._retries.succeeded()
        for record in records:
            self._batch.take(record)
        if self._batch.full() or (self._batch.sets and not records):
            return self._store()
        return bool(records)

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

    def verdict(self) -> Verdict:
        """Return whether the target takes the sets, and all is right with the topic."""
        wrong = "the target does not answer" if self._pause > 0 else self._watch.fault
        return Verdict(not wrong, wrong or "ready")

    def silent_seconds(self) -> float:
        """Return the age of the last answer from a broker while requests fail; 0 otherwise."""
        return self._watch.silent_seconds()

    def over(self) -> bool:
        """Return False: a replay may still publish."""
        return False

    def _store(self) -> bool:
        """Store the batch; return whether this succeeded."""
        try:
            stored = self._target.store(self._batch.sets)
        except RecoverableError as error:
            self._pause = min(2 * self._pause or _FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS)
            self._resume_at = self._clock.monotonic() + self._pause
            waiting = len(self._batch.sets)
            self._metrics.failed(waiting)
            self._log.warning(
                "storing failed and is repeated",
                error=str(error),
                waiting_sets=waiting,
                pause_seconds=self._pause,
            )
            return False
        self._pause = 0.0
        self._metrics.stored(stored, self._batch.sets)
        self._batch.clear()
        if stored.sets:
            self._log.info("stored", sets=stored.sets, rows=stored.rows)
        return True


class PlansSink:
    """A role that opens the common target, and lets the sinks of all plans work."""

    def __init__(self, plans: Role, target: SharedTarget) -> None:
        self.name = plans.name
        self.health: RoleHealth = plans.health
        self._plans = plans
        self._target = target

    def run(self, stop: threading.Event) -> None:
        """Store the sets of all plans until ``stop`` is set."""
        with opened(self._target, stop):
            structlog.get_logger("calmstream.sink").info("target is open", target=self._target.name)
            self._plans.run(stop)
