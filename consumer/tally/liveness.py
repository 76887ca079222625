"""Observes whether a worker's partitions advance, and reports it as gauges and health.

A worker whose partition stands still for too long exits, so that another worker can take over.
"""

from __future__ import annotations

from dataclasses import dataclass

from calmstream.broker.transport import Partition
from calmstream.common.errors import FatalError
from calmstream.consumer.metrics import tally as m
from calmstream.consumer.runtime.belonging import Belonging
from calmstream.consumer.tally.assignment import AssignedPartitions
from calmstream.consumer.tally.context import WorkerContext
from calmstream.consumer.tally.membership import Membership
from calmstream.consumer.tally.monitoring.foreign_alarm import ForeignRecordAlarm
from calmstream.consumer.tally.monitoring.gauges import Gauges
from calmstream.consumer.tally.monitoring.log_ends import EndWatch
from calmstream.consumer.tally.monitoring.progress import Progress

_OBSERVE_SECONDS = 1.0
"""Time between two observations."""


@dataclass(frozen=True, slots=True)
class Observers:
    """The objects that observe the partitions.

    Attributes:
        ends: requests the ends of the logs from the broker.
        alarm: detects too many foreign records.
        progress: detects positions that stand still.
        gauges: sets the metrics of each partition.
    """

    ends: EndWatch
    alarm: ForeignRecordAlarm
    progress: Progress
    gauges: Gauges


class Liveness:
    """Observes the assigned partitions once a second."""

    def __init__(
        self,
        context: WorkerContext,
        assigned: AssignedPartitions,
        membership: Membership,
        observers: Observers,
    ) -> None:
        self._context = context
        self._assigned = assigned
        self._membership = membership
        self._ends = observers.ends
        self._alarm = observers.alarm
        self._progress = observers.progress
        self._gauges = observers.gauges
        self._belonging = Belonging(context.clock)
        self._observe_at = context.clock.monotonic()

    def turn(self) -> None:
        """Note that the loop has run; observe the partitions if a second has passed."""
        health, now = self._context.health, self._context.clock.monotonic()
        self._context.metrics.set(m.POISONED, self._alarm.exceeded)
        if now >= self._observe_at:
            self._observe_at = now + _OBSERVE_SECONDS
            self._observe(now)
        health.turned()
        health.not_ready(self._belonging.missing(self._membership.joined()))

    def at_end(self, partition: Partition) -> bool:
        """Return whether a partition is active and was read to the last end that is known."""
        if not self._membership.is_active(partition):
            return False
        end = self._end(partition)
        return end is not None and self._membership.position(partition) >= end

    def _end(self, partition: Partition) -> int | None:
        """Return the largest end that fetches, restores or requests have reported, or None."""
        ends = (self._membership.end_offset(partition), self._ends.end(partition))
        return max((end for end in ends if end is not None), default=None)

    def _caught_up(self, partition: Partition) -> bool:
        """Return whether a partition is at its end and its broker still answers."""
        if self._ends.unreachable(partition) or not self.at_end(partition):
            return False
        return self._membership.position(partition) >= (self._ends.end(partition) or 0)

    def _observe(self, now: float) -> None:
        stall_seconds = self._context.config.stall_seconds
        self._gauges.turn(self._assigned.folds, self._end)
        restored = {
            p: (self._membership.position(p), self._caught_up(p))
            for p in self._assigned.folds
            if self._membership.is_active(p)
        }
        awaiting = dict.fromkeys(self._assigned.awaiting_restore, (-1, False))
        self._progress.note(restored | awaiting, now)
        slow = self._progress.stalled(stall_seconds / 2, now)
        self._context.health.stuck(f"{slow[0]} stands still" if slow else "")
        for partition in self._progress.stalled(stall_seconds, now):
            raise FatalError(
                f"{partition} has not advanced for {stall_seconds:g} s and is not at its end; "
                "are its brokers up?"
            )
