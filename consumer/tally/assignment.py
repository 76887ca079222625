"""Carries out changes of the assignment: saves and forgets old partitions, restores new ones."""

from __future__ import annotations

from collections.abc import Collection

from calmstream.broker.transport import AssignmentChanges, Partition, Topics
from calmstream.common.errors import RecoverableError
from calmstream.consumer.metrics import tally as m
from calmstream.consumer.runtime.context import TallyContext
from calmstream.consumer.tally.folding.fold import PartitionFold
from calmstream.consumer.tally.log_ends import EndWatch
from calmstream.consumer.tally.membership import Membership
from calmstream.consumer.tally.restore import Restorer
from calmstream.consumer.tally.writing.outbox import WriteOutbox
from calmstream.consumer.tally.writing.records import write_checkpoint

_REVOKED_SECONDS = 1.0  # for the last checkpoint of revoked partitions; short: the group waits


class AssignedPartitions:
    """The partitions that a worker owns; some await a restore until their broker answers."""

    def __init__(
        self,
        context: TallyContext,
        *,
        membership: Membership,
        outbox: WriteOutbox,
        restorer: Restorer,
        topics: Topics,
        ends: EndWatch,
    ) -> None:
        self.folds: dict[Partition, PartitionFold] = {}
        self.awaiting_restore: frozenset[Partition] = frozenset()
        self._context = context
        self._membership = membership
        self._outbox = outbox
        self._restorer = restorer
        self._topics = topics
        self._ends = ends

    def release(self, change: AssignmentChanges) -> frozenset[Partition]:
        """Save revoked partitions, then forget and return those that are gone or added."""
        self._save_revoked(change.revoked - change.lost)
        gone = change.gone | change.added  # what was held of an added one may be outdated
        if gone:
            self._context.metrics.inc(m.REBALANCES)
        self.awaiting_restore -= gone
        for partition in gone:
            self.folds.pop(partition, None)
        if change.gone:
            self._context.log.info("partitions released", partitions=_named(change.gone))
        return gone

    def restore(self, change: AssignmentChanges) -> None:
        """Restore and start added partitions, and waiting ones whose broker answers again."""
        context, awaiting = self._context, self.awaiting_restore
        wanted = change.added | frozenset(p for p in awaiting if self._ends.reachable(p))
        if not wanted:
            return
        context.health.not_ready("restoring")
        began = context.clock.monotonic()
        restored = context.retry("the state topic", lambda: self._restore_reachable(wanted))
        offsets = {partition: fold.next_offset for partition, fold in restored.items()}
        for partition in self._membership.activate(offsets):
            self.folds[partition] = restored[partition]
        seconds = context.clock.monotonic() - began
        context.metrics.observe(m.RESTORE_DURATION, seconds)
        context.log.info(
            "partitions restored", partitions=_named(restored), seconds=round(seconds, 3)
        )

    def _save_revoked(self, revoked: Collection[Partition]) -> None:
        """Write a last checkpoint, so that the next owner does not read the records again.

        A late one is harmless, because its ``next_offset`` is smaller than the next owner's. So the
        wait is short, and a missing acknowledgement is no error.
        """
        saved = {p: self.folds[p] for p in revoked if p in self.folds}
        if not saved:
            return
        deadline = self._context.clock.monotonic() + _REVOKED_SECONDS
        try:
            write_checkpoint(self._context, self._outbox, saved, lambda: None, deadline)
        except RecoverableError as error:
            self._context.log.info(
                "partitions released without a last checkpoint", error=str(error)
            )

    def _restore_reachable(self, wanted: frozenset[Partition]) -> dict[Partition, PartitionFold]:
        """Restore the partitions whose broker answers; note the other partitions as waiting."""
        self.awaiting_restore -= wanted
        try:
            return self._restorer.restore(wanted)
        except RecoverableError as error:
            unreachable = frozenset(p for p in wanted if not self._answers(p))
            if not unreachable or not (wanted - unreachable or self.folds):
                raise  # the broker is not the cause, or the worker has no other partition to count
            self._context.log.warning(
                "partitions await restore: their broker does not answer",
                partitions=_named(unreachable),
                error=str(error),
            )
            reachable = wanted - unreachable
            restored = self._restorer.restore(reachable) if reachable else {}
            self._ends.mark_unreachable(unreachable)
            self.awaiting_restore |= unreachable
            return restored

    def _answers(self, partition: Partition) -> bool:
        self._membership.keep_alive_or_stop()
        try:
            self._topics.log_ends((partition,))
        except RecoverableError:
            return False
        return True


def _named(partitions: Collection[Partition]) -> list[str]:
    return sorted(map(str, partitions))
