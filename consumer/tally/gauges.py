"""Gauges, which are metrics of a present value, of the partitions that a worker owns."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from calmstream.broker.transport import Partition
from calmstream.common.clock import Clock
from calmstream.common.metric_definition import MetricDefinition
from calmstream.consumer.metrics import tally as m
from calmstream.consumer.metrics.registry import Metrics
from calmstream.consumer.tally.folding.fold import PartitionFold

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
