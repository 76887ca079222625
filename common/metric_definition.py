"""The type of a metric's definition, which the code registers and the documentation lists.

Names start with ``calmstream_``; units are base units (seconds, records, reports). Label values:
``plan`` is the plan's name, a hyphen and the first 32 digits of its digest, as in topic names;
``group`` is the number of a group of devices; ``reason`` is a rejection reason or the reason why
reports were given up; ``topic`` and ``partition`` name a partition of a reports topic.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

PREFIX = "calmstream_"
LABELS = frozenset({"plan", "against", "group", "reason", "role", "topic", "partition"})

Kind = Literal["counter", "gauge", "histogram"]


@dataclass(frozen=True, slots=True)
class MetricDefinition:
    """The definition of one metric.

    Attributes:
        name: full name of the metric; the names of counters end in ``_total``.
        kind: counter, gauge or histogram.
        unit: what the metric counts or measures; a column of the documentation's table.
        labels: names of its labels, a subset of :data:`LABELS`.
        help: the meaning of the metric, in one sentence.
        action: what an operator does about an unusual value.
        buckets: upper bounds of a histogram's buckets, ascending; empty for other kinds.
    """

    name: str
    kind: Kind
    unit: str
    labels: tuple[str, ...]
    help: str
    action: str
    buckets: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if not self.name.startswith(PREFIX):
            raise ValueError(f"metric {self.name}: the prefix is {PREFIX}")
        if (self.kind == "counter") != self.name.endswith("_total"):
            raise ValueError(f"metric {self.name}: counters, and only they, end in _total")
        if not LABELS.issuperset(self.labels):
            raise ValueError(f"metric {self.name}: labels come from {sorted(LABELS)}")
        if (self.kind == "histogram") != bool(self.buckets):
            raise ValueError(f"metric {self.name}: buckets go with a histogram, and only there")

    def register(self, registry: CollectorRegistry) -> Any:
        """Return a new collector of this metric."""
        if self.kind == "histogram":
            buckets = self.buckets
            return Histogram(self.name, self.help, self.labels, buckets=buckets, registry=registry)
        kind = Counter if self.kind == "counter" else Gauge
        return kind(self.name, self.help, self.labels, registry=registry)


Collectors = dict[MetricDefinition, Any]
"""Counters, gauges and histograms by their definitions."""


def register_all(
    registry: CollectorRegistry, definitions: Iterable[MetricDefinition]
) -> Collectors:
    """Return new collectors of all these metrics."""
    return {one: one.register(registry) for one in definitions}
