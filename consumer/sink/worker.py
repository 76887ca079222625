"""The sink of one plan, and the role that opens the target of all sinks of a process."""

from __future__ import annotations

import threading

import structlog

from calmstream.broker.names import TopicNames
from calmstream.broker.transport import Broker
from calmstream.common.errors import FatalError, RecoverableError
from calmstream.common.health import RoleHealth
from calmstream.consumer.metrics.registry import plan_label
from calmstream.consumer.runtime.config import WorkerConfig
from calmstream.consumer.runtime.context import PlanContext
from calmstream.consumer.runtime.retry import RetryBudget
from calmstream.consumer.runtime.service import Role
from calmstream.consumer.sink import metrics as m
from calmstream.consumer.sink.target import Stored, Target
from calmstream.consumer.subscribe.assembler import Snapshot
from calmstream.consumer.subscribe.snapshot_topic import SnapshotTopic
from calmstream.consumer.subscribe.subscribe import subscribe, together
from calmstream.estimators.plan import Plan
from calmstream.estimators.wire.snapshot import Kind

BATCH_ROWS = 1 << 17  # so many cells are stored without waiting for the end of the topic
PLAN_ROWS = BATCH_ROWS // 16  # the same of each of many plans, which may wait at the same time
STOP_SECONDS = 10.0  # longest time for which a call to the target holds up the end of a sink
_POLL_SECONDS = 0.5
_BATCH_SECONDS = 2.0
_FIRST_PAUSE_SECONDS = 1.0
_LONGEST_PAUSE_SECONDS = 30.0

SinkContext = PlanContext[WorkerConfig]


class SinkWorker:
    """Stores the sets of a plan: a `PlanWorker`.

    It reads the whole topic at every start; what is stored is left alone, so no position is kept.
    """

    def __init__(
        self, context: SinkContext, broker: Broker, target: Target, *, many: bool = False
    ) -> None:
        self.name = context.role
        self.health = context.health
        self._context = context
        self._broker = broker
        self._target = target
        self._clock = clock = context.clock
        self._metrics = context.metrics
        self._poll_seconds = 0.0 if many else _POLL_SECONDS
        self._batch_rows = PLAN_ROWS if many else BATCH_ROWS
        self._retries = RetryBudget(clock, context.config.retry_seconds)
        self._log = context.log.bind(plan=plan_label(context.plan))
        self._topic: SnapshotTopic | None = None
        self._sets: list[Snapshot] = []
        self._rows = self._finals = 0
        self._since = self._resume_at = clock.monotonic()
        self._pause = 0.0

    def start(self, stop: threading.Event) -> None:  # noqa: ARG002 - its waits are short
        plan, names, config = self._context.plan, self._context.names, self._context.config
        self._target.check_plan(plan)
        self._topic = SnapshotTopic(plan, self._broker, names, self._clock, self._log.warning)
        self._watch = self._topic.watched(
            check_seconds=config.topic_check_seconds, retry_seconds=config.retry_seconds
        )
        self.health.ready()

    def turn(self) -> bool:
        """Take what has arrived; store it when nothing more has, or when it is much."""
        assert self._topic is not None
        watch = self._watch
        self.health.turned()
        watch.turn()
        self.health.watched(watch.silent_seconds, watch.fault)
        pause = self._resume_at - self._clock.monotonic()
        if pause > 0:
            self._clock.sleep(min(pause, self._poll_seconds))
            return False
        # Sets whose storing failed are stored before more is read.
        found = None if self._pause else self._poll(self._topic)
        for snapshot in found or ():
            if not self._sets:
                self._since, self._rows = self._clock.monotonic(), 0
            self._sets.append(snapshot)
            self._rows += snapshot.cells
            if self._much() and not self._pause:
                self._store()
        if found is None and self._sets:
            self._store()
        return found is not None and not self._pause

    def finish(self) -> None:
        """Store what was read, unless that has failed; the topic keeps it for the next start."""
        if self._sets and not self._pause:
            self._store()
        self.abandon()

    def abandon(self) -> None:
        if self._topic is not None:
            self._topic.close()

    def over(self) -> bool:
        """A lost topic may be counted and published again."""
        return False

    def _poll(self, topic: SnapshotTopic) -> list[Snapshot] | None:
        # While sets wait for the end, a short poll finds it sooner.
        seconds = min(self._poll_seconds, 0.1) if self._sets else self._poll_seconds
        try:
            found = topic.sets(seconds)
        except RecoverableError as error:
            self._retries.note_failure("the broker", error)
            self._clock.sleep(self._poll_seconds)
            return None
        self._retries.succeeded()
        return found

    def _much(self) -> bool:
        waited = self._clock.monotonic() - self._since
        return self._rows >= self._batch_rows or waited >= _BATCH_SECONDS

    def _store(self) -> None:
        try:
            stored = self._target.store(self._context.names.results_namespace, self._sets)
        except RecoverableError as error:
            self._failed(error)
            return
        self._pause = 0.0
        finals = (one.window + 1 for one in self._sets if one.kind is Kind.FINAL)
        self._finals = max(self._finals, *finals, 0)
        self._metrics.set(m.FINALS, self._finals)
        self._metrics.inc(m.SETS, stored.sets)
        self._metrics.set(m.WAITING, 0)
        self._sets = []
        self.health.ready()
        if stored.sets:
            self._log.info("stored", sets=stored.sets, rows=stored.rows)

    def _failed(self, error: RecoverableError) -> None:
        self._pause = min(2 * self._pause or _FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS)
        self._resume_at = self._clock.monotonic() + self._pause
        self._metrics.inc(m.FAILURES)
        self._metrics.set(m.WAITING, len(self._sets))
        self.health.not_ready("the target does not answer")
        self._log.warning(
            "storing failed and is repeated",
            error=str(error),
            waiting_sets=len(self._sets),
            pause_seconds=self._pause,
        )


class WithTarget:
    """A role that opens the target, and lets another role work with it."""

    def __init__(self, role: Role, target: Target) -> None:
        self.name = role.name
        self.health: RoleHealth = role.health
        self._role = role
        self._target = target

    def run(self, stop: threading.Event) -> None:
        """Store sets until ``stop`` is set; a target that does not answer at first is an error."""
        done = threading.Event()

        def abort_late() -> None:
            stop.wait()
            while not done.wait(STOP_SECONDS):
                self._target.abort()

        threading.Thread(target=abort_late, name="abort", daemon=True).start()
        try:
            try:
                self._target.open()
            except RecoverableError as error:
                raise FatalError(str(error)) from None
            structlog.get_logger("calmstream.sink").info("target is open", target=self._target.name)
            self._role.run(stop)
        finally:
            done.set()
            self._target.close()


BATCH_SETS = 500  # sets that are stored together at most; some have no cells


def store_once(plan: Plan, broker: Broker, names: TopicNames, target: Target) -> tuple[int, Stored]:
    """Return the number of sets that were read, and what was stored of them in an open target."""
    target.check_plan(plan)
    read = sets = rows = 0
    published = subscribe(
        plan,
        broker,
        follow=False,
        namespace=names.namespace,
        output_namespace=names.output_namespace,
    )
    for several in together(published, BATCH_ROWS, BATCH_SETS):
        done = target.store(names.results_namespace, several)
        read, sets, rows = read + len(several), sets + done.sets, rows + done.rows
    return read, Stored(sets, rows)
