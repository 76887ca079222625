"""The tally worker: its life, and the loop that polls, restores, counts, checkpoints and ticks."""

from __future__ import annotations

import threading
from collections.abc import Mapping

import structlog

from broker.clock import Clock
from broker.names import TopicNames
from broker.transport import Broker, Partition
from consumer.metrics import tally as m
from consumer.metrics.registry import Metrics
from consumer.runtime.config import TallyConfig
from consumer.runtime.health import RoleHealth
from consumer.tally.context import WorkerContext
from consumer.tally.folding.fold import PartitionFold
from consumer.tally.running import RunningWorker, start_worker
from consumer.tally.waiting import StopRequested
from estimators.errors import FatalError, RecoverableError
from estimators.plan import Plan

_CLOSE_SECONDS = 5.0


class TallyWorker:
    """One member of the plan's tally group.

    Args:
        plan: the plan.
        broker: where the topics are.
        names: of the plan's topics.
        clock: the worker's own; never decides what is counted.
        config: times and sizes.
        metrics: from :func:`consumer.metrics.registry.tally_metrics`.

    Attributes:
        health: for the web server.

    :meth:`run` is the whole life. Tests call its steps instead: :meth:`start`, any number of
    :meth:`turn`, then :meth:`finish`, or :meth:`abandon` in place of a crash.
    """

    name = "tally"

    def __init__(
        self,
        plan: Plan,
        broker: Broker,
        names: TopicNames,
        clock: Clock,
        config: TallyConfig,
        metrics: Metrics,
    ) -> None:
        self.health = RoleHealth(self.name, clock)
        log = structlog.get_logger("calmstream.tally").bind(plan=plan.digest[:8])
        self._context = WorkerContext(plan, names, clock, config, metrics, self.health, log)
        self._broker = broker
        self._running: RunningWorker | None = None
        self._checkpoint_at = clock.monotonic()

    @property
    def running(self) -> RunningWorker:
        """The parts of a started worker; a RuntimeError before its start and after its end."""
        if self._running is None:
            raise RuntimeError("the worker is not running")
        return self._running

    @property
    def folds(self) -> Mapping[Partition, PartitionFold]:
        """What it has counted, by restored partition; nothing when it is not running."""
        return {} if self._running is None else self._running.assigned.folds

    @property
    def awaiting_restore(self) -> frozenset[Partition]:
        """Partitions that it owns and cannot restore yet, because their broker does not answer."""
        return frozenset() if self._running is None else self._running.assigned.awaiting_restore

    def run(self, stop: threading.Event) -> None:
        """Count until ``stop`` is set; then checkpoint and leave within ``stop_seconds``.

        Raises:
            FatalError: going on would be wrong or cannot succeed; what was not checkpointed is
                read again by the next owner.
        """
        try:
            self.start(stop)
            while not stop.is_set():
                self.turn()
        except StopRequested:
            pass
        except BaseException:
            self.abandon()
            raise
        self.finish()

    def start(self, stop: threading.Event | None = None) -> None:
        """Verify the topics, open the clients, join the group.

        Args:
            stop: ends waits for the broker when it is set.

        Raises:
            FatalError: topics are missing or set wrongly, or the broker does not answer within
                the retry budget.
            StopRequested: ``stop`` was set while the broker did not answer.
        """
        self._running = start_worker(self._context, self._broker, stop or threading.Event())
        self._schedule_checkpoint()

    def turn(self) -> None:
        """One round of the loop; blocks at most for a poll, a restore or a checkpoint.

        Raises:
            FatalError: see :meth:`run`.
            StopRequested: the event given to :meth:`start` was set while waiting for the broker.
        """
        running, context = self.running, self._context
        records = running.membership.poll()
        context.metrics.set(m.LAST_POLL, context.clock.now_ms() / 1000)
        change = running.membership.take_assignment_change()
        running.assignment.release(change)
        running.counter.count(records)
        running.assignment.restore(change)
        running.outbox.settle()
        if context.clock.monotonic() >= self._checkpoint_at:
            self.checkpoint()
        running.topic_watch.turn()
        assigned = running.assigned
        running.observers.ends.turn(assigned.folds.keys() | assigned.awaiting_restore)
        ticks = running.ticker.turn(assigned.folds, running.liveness.at_end)
        context.metrics.inc(m.TICKS, ticks)
        running.back_pressure.apply()
        running.liveness.turn()

    def checkpoint(self, deadline: float | None = None) -> None:
        """Make everything folded so far durable.

        Args:
            deadline: monotonic seconds after which to give up; None to wait for the retry budget,
                or until the worker is asked to stop.

        Raises:
            RecoverableError: not in time.
            FatalError: refused, or this worker may write no more.
        """
        running = self.running
        wait = running.keep_alive.beat_or_stop if deadline is None else running.keep_alive.beat
        durable = running.checkpointer.checkpoint(running.assigned.folds, wait, deadline)
        self._schedule_checkpoint()
        if durable:
            running.membership.commit(durable)
            self._context.log.debug("checkpoint", partitions=len(durable))

    def finish(self) -> None:
        """Checkpoint, leave the group, release the clients; within ``stop_seconds``.

        Raises:
            FatalError: the last checkpoint was not acknowledged; nothing is lost, it is read again.
        """
        if self._running is None:
            return
        self.health.not_ready("draining")
        clock = self._context.clock
        deadline = clock.monotonic() + self._context.config.stop_seconds / 2
        try:
            self.checkpoint(deadline)
        except RecoverableError as error:
            raise FatalError(f"stopped without a last checkpoint: {error}") from error
        finally:
            self._close(max(1.0, min(_CLOSE_SECONDS, deadline - clock.monotonic())))
        self._context.log.info("stopped")

    def abandon(self) -> None:
        """Release the clients and write nothing more. Never raises."""
        if self._running is not None:
            self.health.not_ready("failed")
            self._close(0.0)

    def _close(self, timeout: float) -> None:
        running, self._running = self._running, None
        assert running is not None, "only a running worker is closed"
        running.close(timeout)

    def _schedule_checkpoint(self) -> None:
        now = self._context.clock.monotonic()
        self._checkpoint_at = now + self._context.config.checkpoint_seconds
