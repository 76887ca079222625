"""From assignment changes to partitions that are counted: release, restore, activate."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from broker.transport import Partition, Topics
from consumer.metrics import tally as m
from consumer.tally.context import WorkerContext
from consumer.tally.folding.fold import PartitionFold
from consumer.tally.membership import AssignmentChange, Membership
from consumer.tally.monitoring.log_ends import EndWatch
from consumer.tally.restore import Restored, Restorer
from consumer.tally.waiting import KeepAlive, Retries
from consumer.tally.writing.checkpoint import Checkpointer
from estimators.errors import RecoverableError

_REVOKED_SECONDS = 1.0
"""Longest wait for the last checkpoint of revoked partitions: the group waits for it."""


@dataclass(slots=True)
class AssignedPartitions:
    """The input partitions that a worker owns.

    Attributes:
        folds: of the restored ones.
        awaiting_restore: owned, but not restored yet because their broker does not answer.
    """

    folds: dict[Partition, PartitionFold] = field(default_factory=dict)
    awaiting_restore: frozenset[Partition] = frozenset()


class AssignmentHandler:
    """Carries out assignment changes.

    Args:
        context: of the worker.
        assigned: changed here and nowhere else.
        membership: of the group.
        checkpointer: saves revoked partitions.
        restorer: reads what the last owner wrote.
        topics: to find out which partitions do not answer.
        ends: notes log ends and unreachable partitions.
        retries: for the state topic.
        keep_alive: called between questions to the broker.
        drop: called with the partitions that are released, to forget them.
    """

    def __init__(
        self,
        context: WorkerContext,
        assigned: AssignedPartitions,
        *,
        membership: Membership,
        checkpointer: Checkpointer,
        restorer: Restorer,
        topics: Topics,
        ends: EndWatch,
        retries: Retries,
        keep_alive: KeepAlive,
        drop: Sequence[Callable[[Collection[Partition]], None]],
    ) -> None:
        self._context = context
        self._assigned = assigned
        self._membership = membership
        self._checkpointer = checkpointer
        self._restorer = restorer
        self._topics = topics
        self._ends = ends
        self._retries = retries
        self._keep_alive = keep_alive
        self._drop = drop

    def release(self, change: AssignmentChange) -> None:
        """Save revoked partitions, then forget all that are gone.

        Raises:
            FatalError: the writes were refused, or the worker may write no more.
        """
        self._save_revoked(change.revoked)
        gone = change.gone | change.added
        if gone:
            self._context.metrics.inc(m.REBALANCES)
        self._assigned.awaiting_restore -= gone
        for partition in gone:
            self._assigned.folds.pop(partition, None)
        for drop in self._drop:
            drop(gone)
        if change.gone:
            self._context.log.info("partitions released", partitions=_named(change.gone))

    def restore(self, change: AssignmentChange) -> None:
        """Restore and activate added partitions, and awaiting ones that can be reached again.

        Raises:
            FatalError: the log and the state do not fit together, or the retry budget is spent.
            StopRequested: the worker is asked to stop.
        """
        context, awaiting = self._context, self._assigned.awaiting_restore
        wanted = change.added | frozenset(p for p in awaiting if self._ends.reachable(p))
        if not wanted:
            return
        context.health.not_ready("restoring")
        began = context.clock.monotonic()
        restored = self._retries.call("the state topic", lambda: self._restore_reachable(wanted))
        offsets = {partition: one.fold.next_offset for partition, one in restored.items()}
        self._ends.note({partition: one.log_end for partition, one in restored.items()})
        for partition in self._membership.activate(offsets):
            self._assigned.folds[partition] = restored[partition].fold
            self._checkpointer.begin(partition, offsets[partition])
        seconds = context.clock.monotonic() - began
        context.metrics.inc(m.RESTORES, len(restored))
        context.metrics.observe(m.RESTORE_DURATION, seconds)
        context.log.info(
            "partitions restored", partitions=_named(restored), seconds=round(seconds, 3)
        )

    def _save_revoked(self, revoked: Collection[Partition]) -> None:
        """Write a last checkpoint, so that the next owner need not read the records again.

        A write that arrives late is a stale record: its next_offset is smaller, never wrong. So
        this neither waits long for the acknowledgements nor fails without them.
        """
        folds = self._assigned.folds
        saved = {p: folds[p] for p in revoked if p in folds}
        if not saved:
            return
        deadline = self._context.clock.monotonic() + _REVOKED_SECONDS
        try:
            self._checkpointer.checkpoint(saved, lambda: None, deadline)
        except RecoverableError as error:
            self._context.log.info(
                "partitions released without a last checkpoint", error=str(error)
            )

    def _restore_reachable(self, wanted: frozenset[Partition]) -> dict[Partition, Restored]:
        """Restore those that answer; the others await it and delay none of these."""
        assigned = self._assigned
        assigned.awaiting_restore -= wanted
        try:
            return self._restorer.restore(wanted)
        except RecoverableError as error:
            unreachable = frozenset(p for p in wanted if not self._answers(p))
            if not unreachable or not (wanted - unreachable or assigned.folds):
                raise  # another cause, or the worker has no partition that it could count
            self._context.log.warning(
                "partitions await restore: their broker does not answer",
                partitions=_named(unreachable),
                error=str(error),
            )
            left = wanted - unreachable
            restored = self._restorer.restore(left) if left else {}
            self._ends.mark_unreachable(unreachable)
            assigned.awaiting_restore |= unreachable
            return restored

    def _answers(self, partition: Partition) -> bool:
        self._keep_alive.beat_or_stop()
        try:
            self._topics.log_ends((partition,))
        except RecoverableError:
            return False
        return True


def _named(partitions: Collection[Partition]) -> list[str]:
    return sorted(map(str, partitions))
