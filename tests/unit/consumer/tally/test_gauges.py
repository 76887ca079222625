"""Check that the gauges of a partition are set when their values change, and only then."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

from calmstream.broker.transport import Partition
from calmstream.common.metric_definition import MetricDefinition
from calmstream.consumer.metrics import tally as m
from calmstream.consumer.tally.gauges import Gauges
from tests.support.clock import ManualClock

WHERE = Partition("t", 0)


class Noted:
    """Notes what is set."""

    def __init__(self) -> None:
        self.values: dict[MetricDefinition, float] = {}
        self.number: Counter[MetricDefinition] = Counter()

    def set(self, definition: MetricDefinition, value: float, **_labels: str) -> None:
        self.values[definition] = value
        self.number[definition] += 1


def test_a_gauge_is_set_again_only_if_its_value_has_changed() -> None:
    noted = Noted()
    gauges = Gauges(noted, ManualClock())  # type: ignore[arg-type]
    folds: Any = {WHERE: SimpleNamespace(next_offset=0, clock=5, closed_through=-1)}
    for end in (7, 7, 7, 9):
        gauges.turn(folds, lambda _partition, end=end: end)  # type: ignore[misc]
    assert noted.values[m.LAG_RECORDS] == 9
    assert noted.number[m.LAG_RECORDS] == 2
    assert noted.number[m.PARTITION_CLOCK] == noted.number[m.CLOSED_THROUGH] == 1
    gauges.drop([WHERE])
    assert noted.values[m.LAG_RECORDS] == 0
    gauges.turn(folds, lambda _partition: 9)
    assert noted.values[m.LAG_RECORDS] == 9
