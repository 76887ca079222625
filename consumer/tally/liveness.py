"""Observes whether a worker's partitions advance; a worker whose partition stands still exits."""

from __future__ import annotations

from collections.abc import Collection

from calmstream.broker.transport import Partition
from calmstream.common.errors import FatalError
from calmstream.common.metrics import MetricDefinition
from calmstream.consumer.metrics import tally as m
from calmstream.consumer.runtime.context import TallyContext
from calmstream.consumer.tally.assignment import AssignedPartitions
from calmstream.consumer.tally.folding.fold import PartitionFold
from calmstream.consumer.tally.log_ends import EndWatch
from calmstream.consumer.tally.membership import Membership

_OBSERVE_SECONDS = 1.0
"""Time between two observations."""

_PARTITION_GAUGES = (m.LAG_RECORDS, m.LAG_SECONDS, m.PARTITION_CLOCK, m.CLOSED_THROUGH)


class Liveness:
    """Observes the assigned partitions once a second."""

    def __init__(
        self,
        context: TallyContext,
        assigned: AssignedPartitions,
        membership: Membership,
        ends: EndWatch,
    ) -> None:
        self._context = context
        self._assigned = assigned
        self._membership = membership
        self._ends = ends
        self._observe_at = context.clock.monotonic()
        # Position of each owned partition, and the monotonic time at which it was reached.
        self._reached: dict[Partition, tuple[int, float]] = {}
        self._gauges: dict[tuple[MetricDefinition, Partition], float] = {}

    def turn(self) -> None:
        """Note that the loop has run; observe the partitions if a second has passed."""
        health, now = self._context.health, self._context.clock.monotonic()
        if now >= self._observe_at:
            self._observe_at = now + _OBSERVE_SECONDS
            self._observe(now)
        health.turned()
        health.member(self._membership.reader.joined())

    def drop(self, partitions: Collection[Partition]) -> None:
        """Forget partitions that are gone; other workers show their gauges now."""
        for partition in partitions:
            self._reached.pop(partition, None)
            for gauge in _PARTITION_GAUGES:
                self._set(gauge, partition, 0)

    def at_end(self, partition: Partition) -> bool:
        """Return whether a partition is active and was read to the last end that is known."""
        if not self._membership.is_active(partition):
            return False
        end = self._end(partition)
        return end is not None and self._membership.reader.position(partition) >= end

    def _end(self, partition: Partition) -> int | None:
        """Return the largest end that fetches, restores or requests have reported, or None."""
        ends = (self._membership.reader.end_offset(partition), self._ends.end(partition))
        return max((end for end in ends if end is not None), default=None)

    def _observe(self, now: float) -> None:
        stall_seconds = self._context.config.stall_seconds
        self._context.metrics.set(m.ASSIGNED, len(self._assigned.folds))
        for partition, fold in self._assigned.folds.items():
            self._show(partition, fold)
            if self._membership.is_active(partition):
                position = self._membership.reader.position(partition)
                caught_up = not self._ends.unreachable(partition) and self.at_end(partition)
                self._note(partition, position, caught_up, now)
        for partition in self._assigned.awaiting_restore:
            self._note(partition, -1, False, now)
        slow = self._stalled(stall_seconds / 2, now)
        self._context.health.stuck(f"{slow[0]} stands still" if slow else "")
        if stalled := self._stalled(stall_seconds, now):
            raise FatalError(
                f"{stalled[0]} has not advanced for {stall_seconds:g} s and is not at its end; "
                "are its brokers up?"
            )

    def _note(self, partition: Partition, position: int, caught_up: bool, now: float) -> None:
        before = self._reached.get(partition)
        if caught_up or before is None or before[0] != position:
            self._reached[partition] = position, now

    def _stalled(self, seconds: float, now: float) -> list[Partition]:
        return sorted(p for p, (_, since) in self._reached.items() if now - since > seconds)

    def _show(self, partition: Partition, fold: PartitionFold) -> None:
        end, log_clock = self._end(partition), fold.admission.clock
        lag = 0 if end is None else max(0, end - fold.next_offset)
        age = max(0, self._context.clock.now_ms() - log_clock) / 1000 if lag and log_clock else 0.0
        self._set(m.LAG_RECORDS, partition, lag)
        self._set(m.LAG_SECONDS, partition, age)
        self._set(m.PARTITION_CLOCK, partition, log_clock / 1000)
        self._set(m.CLOSED_THROUGH, partition, fold.admission.closed_through + 1)

    def _set(self, gauge: MetricDefinition, partition: Partition, value: float) -> None:
        # To find the series of a label costs much more than this look. Most partitions are idle.
        if self._gauges.get((gauge, partition)) == value:
            return
        self._gauges[gauge, partition] = value
        labels = {"topic": partition.topic, "partition": str(partition.number)}
        self._context.metrics.set(gauge, value, **labels)
