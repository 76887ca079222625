"""Observes whether a worker's partitions advance; a worker whose partition stands still exits."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from calmstream.broker.transport import Partition
from calmstream.common.clock import Clock
from calmstream.common.errors import FatalError
from calmstream.common.metric_definition import MetricDefinition
from calmstream.consumer.metrics import tally as m
from calmstream.consumer.metrics.registry import Metrics
from calmstream.consumer.runtime.context import TallyContext
from calmstream.consumer.tally.assignment import AssignedPartitions
from calmstream.consumer.tally.folding.fold import PartitionFold
from calmstream.consumer.tally.log_ends import EndWatch
from calmstream.consumer.tally.membership import Membership

_OBSERVE_SECONDS = 1.0
"""Time between two observations."""


class Liveness:
    """Observes the assigned partitions once a second."""

    def __init__(
        self,
        context: TallyContext,
        assigned: AssignedPartitions,
        membership: Membership,
        ends: EndWatch,
    ) -> None:
        self.gauges = Gauges(context.metrics, context.clock)
        self._context = context
        self._assigned = assigned
        self._membership = membership
        self._ends = ends
        self._observe_at = context.clock.monotonic()
        # Position of each owned partition, and the monotonic time at which it was reached.
        self._reached: dict[Partition, tuple[int, float]] = {}

    def turn(self) -> None:
        """Note that the loop has run; observe the partitions if a second has passed."""
        health, now = self._context.health, self._context.clock.monotonic()
        if now >= self._observe_at:
            self._observe_at = now + _OBSERVE_SECONDS
            self._observe(now)
        health.turned()
        health.member(self._membership.joined())

    def drop(self, partitions: Collection[Partition]) -> None:
        self.gauges.drop(partitions)
        for partition in partitions:
            self._reached.pop(partition, None)

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
        self.gauges.turn(self._assigned.folds, self._end)
        for partition in self._assigned.folds:
            if self._membership.is_active(partition):
                position = self._membership.position(partition)
                self._note(partition, position, self._caught_up(partition), now)
        for partition in self._assigned.awaiting_restore:
            self._note(partition, -1, False, now)
        slow = self._stalled(stall_seconds / 2, now)
        self._context.health.stuck(f"{slow[0]} stands still" if slow else "")
        for partition in self._stalled(stall_seconds, now):
            raise FatalError(
                f"{partition} has not advanced for {stall_seconds:g} s and is not at its end; "
                "are its brokers up?"
            )

    def _note(self, partition: Partition, position: int, caught_up: bool, now: float) -> None:
        before = self._reached.get(partition)
        if caught_up or before is None or before[0] != position:
            self._reached[partition] = position, now

    def _stalled(self, seconds: float, now: float) -> list[Partition]:
        """Return the partitions that have stood still, not at their end, for this time."""
        return sorted(p for p, (_, since) in self._reached.items() if now - since > seconds)


_PARTITION_GAUGES = (m.LAG_RECORDS, m.LAG_SECONDS, m.PARTITION_CLOCK, m.CLOSED_THROUGH)


class Gauges:
    """Sets the gauges of each owned partition: lag, clock and closed windows."""

    def __init__(self, metrics: Metrics, clock: Clock) -> None:
        self._metrics = metrics
        self._clock = clock
        self._values: dict[tuple[MetricDefinition, Partition], float] = {}

    def drop(self, partitions: Collection[Partition]) -> None:
        """Set the gauges of partitions that this worker does not own any more to 0.

        Another worker shows their values now.
        """
        for partition in partitions:
            for gauge in _PARTITION_GAUGES:
                self._set(gauge, partition, 0)

    def turn(
        self,
        folds: Mapping[Partition, PartitionFold],
        end_offset: Callable[[Partition], int | None],
    ) -> None:
        wall = self._clock.now_ms()
        for partition, fold in folds.items():
            end = end_offset(partition)
            lag = 0 if end is None else max(0, end - fold.next_offset)
            age = max(0, wall - fold.clock) / 1000 if lag and fold.clock else 0.0
            self._set(m.LAG_RECORDS, partition, lag)
            self._set(m.LAG_SECONDS, partition, age)
            self._set(m.PARTITION_CLOCK, partition, fold.clock / 1000)
            self._set(m.CLOSED_THROUGH, partition, fold.closed_through + 1)
        self._metrics.set(m.ASSIGNED, len(folds))

    def _set(self, gauge: MetricDefinition, partition: Partition, value: float) -> None:
        # To find the series of a label costs much more than this look. Most partitions are idle.
        if self._values.get((gauge, partition)) == value:
            return
        self._values[gauge, partition] = value
        self._metrics.set(gauge, value, topic=partition.topic, partition=str(partition.number))
