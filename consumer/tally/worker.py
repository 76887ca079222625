"""The tally worker: a loop that polls, restores, folds, checkpoints and ticks."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from typing import TypeVar

import structlog

from broker.clock import Clock
from broker.metric_definition import MetricDefinition
from broker.names import TopicNames
from broker.transport import Broker, Partition, Record
from consumer.metrics import tally as m
from consumer.metrics.registry import Metrics
from consumer.runtime.config import TallyConfig
from consumer.runtime.health import RoleHealth
from consumer.runtime.retry import retry_call
from consumer.runtime.topic_checks import verify_topics
from consumer.runtime.topic_watch import TopicWatch
from consumer.tally.admission import check_append_time
from consumer.tally.checkpoint import Checkpointer
from consumer.tally.dead_letters import DeadLetters
from consumer.tally.fold import PartitionFold
from consumer.tally.monitoring.foreign_alarm import ForeignRecordAlarm
from consumer.tally.monitoring.gauges import Gauges
from consumer.tally.monitoring.log_ends import EndWatch
from consumer.tally.membership import AssignmentChange, Membership
from consumer.tally.outbox import Outbox
from consumer.tally.monitoring.progress import Progress
from consumer.tally.restore import Restored, Restorer
from consumer.tally.ticks import Ticker
from estimators.errors import FatalError, RecoverableError
from estimators.plan import Plan

T = TypeVar("T")

_RETRY_PAUSE = 0.5
_CLOSE_SECONDS = 5.0
_JOIN_SECONDS = 10.0
_REVOKED_SECONDS = 1.0
_OBSERVE_SECONDS = 1.0
# Reading goes on again once so few writes are left of the limit.
_RESUME_AT = 0.5
# At so many times the limit (one poll can bring many rejects) even folding waits.
_HARD_LIMIT = 4


class StopRequested(Exception):  # noqa: N818 - not an error: the way out of a long restore
    """The worker was told to stop in the middle of something that can be done again."""


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

    :meth:`run` is the whole life. Tests drive it step by step instead: :meth:`start`, any number
    of :meth:`turn`, then :meth:`finish` (or :meth:`abandon`, which is what a crash does).
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
        self._plan = plan
        self._names = names
        self._clock = clock
        self._config = config
        self._metrics = metrics
        self._log = structlog.get_logger("calmstream.tally").bind(plan=plan.digest[:8])
        self._folds: dict[Partition, PartitionFold] = {}
        # Owned, and not restored yet because their broker does not answer.
        self._awaiting_restore: frozenset[Partition] = frozenset()
        self._progress = Progress()
        self._foreign_alarm = ForeignRecordAlarm(config)
        self._stop = threading.Event()
        self._broker = broker
        self._started = False

    def run(self, stop: threading.Event) -> None:
        """Count until ``stop`` is set; then checkpoint and leave within ``stop_seconds``.

        Raises:
            FatalError: going on would be wrong or cannot succeed; what was not checkpointed is
                read again by whoever takes over.
        """
        self._stop = stop
        try:
            self.start()
            while not stop.is_set():
                self.turn()
        except StopRequested:
            pass
        except BaseException:
            self.abandon()
            raise
        self.finish()

    def start(self) -> None:
        """Verify the topics, open the clients, join the group.

        Raises:
            FatalError: topics are missing or set wrongly, or the broker does not answer within
                the retry budget.
        """
        config, clock = self._config, self._clock
        self._topics = self._broker.topics()
        found = self._retry(
            "the broker", lambda: verify_topics(self._plan, self._names, self._topics)
        )
        used = (*self._names.all_reports, self._names.state, self._names.dead_letters)
        self._watch_topics = TopicWatch(
            self._topics, {name: found[name] for name in used}, clock, config.topic_check_seconds
        )
        self._ends = EndWatch(self._topics, clock, config.topic_check_seconds)
        self._reader = self._broker.reader()
        self._sink = self._broker.sink()
        # Later the loop would wait for it, and that may be just when a broker does not answer.
        self._retry("the broker", lambda: self._sink.prepare(used))
        member = self._broker.group_reader(
            f"{self._names.output_prefix}.tally", member=config.member or None
        )
        self._membership = Membership(member, clock, config)
        guard = self._membership.guard
        self._outbox = Outbox(
            self._sink,
            clock,
            guard,
            config.retry_seconds,
            retried=lambda: self._metrics.inc(m.SEND_RETRIES),
        )
        self._dead_letters = DeadLetters(
            self._plan,
            self._names,
            self._outbox,
            acknowledged=lambda: self._metrics.inc(m.DEAD_LETTERS),
            omitted=lambda: self._metrics.inc(m.DEAD_LETTERS_OMITTED),
        )
        self._checkpointer = Checkpointer(
            self._plan, self._names, self._outbox, clock, self._metrics
        )
        self._ticker = Ticker(
            self._sink, clock, guard, config.tick_seconds, stall_seconds=config.stall_seconds
        )
        self._gauges = Gauges(self._metrics, clock)
        self._restorer = Restorer(
            self._plan,
            self._names,
            self._reader,
            self._topics,
            clock=clock,
            patience_seconds=config.retry_seconds,
            keep_alive=self._keep_alive_or_stop,
        )
        self._membership.join(self._names.all_reports)
        self._joined_at = self._observe_at = clock.monotonic()
        self._checkpoint_at = self._joined_at + config.checkpoint_seconds
        self._started = True

    def turn(self) -> None:
        """One round of the loop; blocks at most for a poll, a restore or a checkpoint.

        Raises:
            FatalError: see :meth:`run`.
            StopRequested: the event given to :meth:`run` was set while waiting for the broker.
        """
        records = self._membership.poll()
        self._metrics.set(m.LAST_POLL, self._clock.now_ms() / 1000)
        change = self._membership.take_assignment_change()
        self._save_revoked(change.revoked)
        self._drop(change)
        self._fold_all(records)
        self._restore(change)
        self._outbox.settle()
        if self._clock.monotonic() >= self._checkpoint_at:
            self.checkpoint()
        self._watch_topics.turn()
        self._ends.turn(self._folds.keys() | self._awaiting_restore)
        ticks = self._ticker.turn(self._folds, self._at_end)
        self._metrics.inc(m.TICKS, ticks)
        self._apply_back_pressure()
        self._observe()

    def checkpoint(self, deadline: float | None = None) -> None:
        """Make everything folded so far durable.

        Args:
            deadline: monotonic seconds after which to give up; None to wait for the retry budget,
                or until the worker is told to stop.

        Raises:
            RecoverableError: not in time.
            FatalError: refused, or this worker may write no more.
        """
        alive = self._keep_alive_or_stop if deadline is None else self._keep_alive
        durable = self._checkpointer.checkpoint(self._folds, alive, deadline)
        self._checkpoint_at = self._clock.monotonic() + self._config.checkpoint_seconds
        if durable:
            self._membership.commit(durable)
            self._log.debug("checkpoint", partitions=len(durable))

    def finish(self) -> None:
        """Checkpoint, leave the group, release the clients; within ``stop_seconds``.

        Raises:
            FatalError: the last checkpoint was not acknowledged; nothing is lost, it is read again.
        """
        if not self._started:
            return
        self.health.not_ready("draining")
        deadline = self._clock.monotonic() + self._config.stop_seconds / 2
        try:
            self.checkpoint(deadline)
        except RecoverableError as error:
            raise FatalError(f"stopped without a last checkpoint: {error}") from error
        finally:
            self._close(max(1.0, min(_CLOSE_SECONDS, deadline - self._clock.monotonic())))
        self._log.info("stopped")

    def abandon(self) -> None:
        """Release the clients and write nothing more. Never raises."""
        if self._started:
            self.health.not_ready("failed")
            self._close(0.0)

    def _close(self, timeout: float) -> None:
        self._started = False
        self._membership.leave(timeout)
        self._sink.close(timeout)
        self._reader.close()
        self._topics.close()
        self._gauges.drop(tuple(self._folds))
        self._folds.clear()
        self._awaiting_restore = frozenset()

    def _save_revoked(self, revoked: Collection[Partition]) -> None:
        """Save revoked partitions on the way out, so that the next owner need not read them again.

        Whatever lands late is a stale record, as a zombie's is: behind, never wrong. It is not
        worth waiting for, and not worth failing for.
        """
        folds = {p: self._folds[p] for p in revoked if p in self._folds}
        if not folds:
            return
        deadline = self._clock.monotonic() + _REVOKED_SECONDS
        try:
            self._checkpointer.checkpoint(folds, lambda: None, deadline)
        except RecoverableError as error:
            self._log.info("handed over without a checkpoint", error=str(error))

    def _drop(self, change: AssignmentChange) -> None:
        if change.gone or change.added:
            self._metrics.inc(m.REBALANCES)
        gone = change.gone | change.added
        self._awaiting_restore -= gone
        for partition in gone:
            self._folds.pop(partition, None)
        self._outbox.drop(gone)
        for part in (self._checkpointer, self._ticker, self._progress, self._gauges):
            part.drop(gone)
        if change.gone:
            self._log.info("partitions went", partitions=sorted(map(str, change.gone)))

    def _restore(self, change: AssignmentChange) -> None:
        wanted = change.added | frozenset(
            p for p in self._awaiting_restore if self._ends.reachable(p)
        )
        if not wanted:
            return
        self.health.not_ready("restoring")
        began = self._clock.monotonic()
        restored = self._retry("the state topic", lambda: self._restored(wanted))
        offsets = {partition: one.fold.next_offset for partition, one in restored.items()}
        self._ends.note({partition: one.log_end for partition, one in restored.items()})
        for partition in self._membership.activate(offsets):
            self._folds[partition] = restored[partition].fold
            self._checkpointer.begin(partition, offsets[partition])
        seconds = self._clock.monotonic() - began
        self._metrics.inc(m.RESTORES, len(restored))
        self._metrics.observe(m.RESTORE_DURATION, seconds)
        self._log.info(
            "partitions restored", partitions=sorted(map(str, restored)), seconds=round(seconds, 3)
        )

    def _restored(self, wanted: frozenset[Partition]) -> dict[Partition, Restored]:
        """Those of the wanted ones that answer; the others are late, and hold up none of these."""
        self._awaiting_restore -= wanted
        try:
            return self._restorer.restore(wanted)
        except RecoverableError as error:
            unreachable = frozenset(p for p in wanted if not self._answers(p))
            if not unreachable or not (wanted - unreachable or self._folds):
                raise  # something else ails, or there is nothing to go on with
            self._log.warning(
                "partitions wait for their broker",
                partitions=sorted(map(str, unreachable)),
                error=str(error),
            )
            restored = self._restorer.restore(wanted - unreachable) if wanted - unreachable else {}
            self._ends.mark_unreachable(unreachable)
            self._awaiting_restore |= unreachable
            return restored

    def _answers(self, partition: Partition) -> bool:
        self._keep_alive_or_stop()
        try:
            self._topics.log_ends((partition,))
        except RecoverableError:
            return False
        return True

    def _fold_all(self, records: Iterable[Record]) -> None:
        """Fold what was polled; metrics once per call, since a label lookup costs as much."""
        seen: Counter[tuple[MetricDefinition, int]] = Counter()
        try:
            for record in records:
                fold = self._folds.get(record.partition)
                if fold is not None and record.offset >= fold.next_offset:
                    self._fold(fold, record, seen)
        finally:
            for (metric, group), amount in seen.items():
                self._metrics.inc(metric, amount, group=str(group))

    def _fold(
        self, fold: PartitionFold, record: Record, seen: Counter[tuple[MetricDefinition, int]]
    ) -> None:
        check_append_time(record, self._clock.now_ms())
        outcome = fold.fold(record)
        seen[m.RECORDS_READ, fold.group] += 1
        if outcome.closed:
            self._checkpointer.write_closed(record.partition, outcome.closed)
        if outcome.rejection is not None:
            self._dead_letters.keep(record, outcome)
            self._metrics.inc(m.REJECTIONS, reason=outcome.rejection.reason.value)
            self._foreign_alarm.note(outcome.rejection.reason)
        elif outcome.reports:
            self._foreign_alarm.note(None)
            seen[m.REPORTS_ACCEPTED, fold.group] += outcome.reports
            seen[m.BATCHES_ACCEPTED, fold.group] += 1
        if len(self._outbox) > _HARD_LIMIT * self._config.writes_in_flight:
            self._outbox.drain(self._keep_alive_or_stop)

    def _at_end(self, partition: Partition) -> bool:
        if not self._membership.owns(partition):
            return False
        end = self._end(partition)
        return end is not None and self._membership.position(partition) >= end

    def _end(self, partition: Partition) -> int | None:
        """The end of the log as fetches, questions and restores have shown it, the furthest."""
        ends = (self._membership.end_offset(partition), self._ends.end(partition))
        return max((end for end in ends if end is not None), default=None)

    def _caught_up(self, partition: Partition) -> bool:
        """At the end, and that the partition still answers when it is asked for its end."""
        if self._ends.unreachable(partition) or not self._at_end(partition):
            return False
        return self._membership.position(partition) >= (self._ends.end(partition) or 0)

    def _apply_back_pressure(self) -> None:
        waiting, limit = len(self._outbox), self._config.writes_in_flight
        if waiting > limit:
            self._membership.block(True)
        elif waiting <= limit * _RESUME_AT:
            self._membership.block(False)
        self._metrics.set(m.IN_FLIGHT, waiting)
        self._metrics.set(m.POISONED, self._foreign_alarm.exceeded)

    def _observe(self) -> None:
        now = self._clock.monotonic()
        if now >= self._observe_at:
            self._observe_at = now + _OBSERVE_SECONDS
            self._watch(now)
        self.health.turned()
        # A member without partitions looks like one that is still joining; time tells them apart.
        if self._folds or now - self._joined_at >= _JOIN_SECONDS:
            self.health.ready()
        else:
            self.health.not_ready("joining")

    def _watch(self, now: float) -> None:
        """Refresh the gauges; exit if a partition stands still."""
        self._gauges.turn(self._folds, self._end)
        restored = {
            p: (self._membership.position(p), self._caught_up(p))
            for p in self._folds
            if self._membership.owns(p)
        }
        self._progress.note(restored | dict.fromkeys(self._awaiting_restore, (-1, False)), now)
        slow = self._progress.stalled(self._config.stall_seconds / 2, now)
        self.health.stuck(f"{slow[0]} stands still" if slow else "")
        for partition in self._progress.stalled(self._config.stall_seconds, now):
            raise FatalError(
                f"{partition} has not advanced for {self._config.stall_seconds:g} s and is not at "
                "its end; are its brokers up?"
            )

    def _keep_alive(self) -> None:
        self.health.turned()
        self._membership.keep_alive()

    def _keep_alive_or_stop(self) -> None:
        if self._stop.is_set():
            raise StopRequested
        self._keep_alive()

    def _retry(self, what: str, call: Callable[[], T]) -> T:
        def failed(error: RecoverableError) -> None:
            if self._stop.is_set():
                raise StopRequested from error
            self._log.warning("trying again", what=what, error=str(error))

        return retry_call(
            what,
            call,
            clock=self._clock,
            seconds=self._config.retry_seconds,
            pause_seconds=_RETRY_PAUSE,
            failed=failed,
        )
