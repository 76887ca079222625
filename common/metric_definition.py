"""Definitions of metrics, which the code registers and the documentation lists.

``plan`` is the plan's name, a hyphen and the first 32 digits of its digest, as in topic names.
Units are base units (seconds, records, reports).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

DURATIONS = (0.005, 0.02, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
"""Buckets of durations in seconds: from a quick write to the longest time limit of a call."""

Kind = Literal["counter", "gauge", "histogram"]


@dataclass(frozen=True, slots=True)
class MetricDefinition:
    """The definition of one metric; ``action`` is what an operator does about an unusual value."""

    kind: Kind
    name: str
    help: str
    action: str
    labels: tuple[str, ...]
    buckets: tuple[float, ...] = ()

    def register(self, registry: CollectorRegistry) -> Any:
        if self.kind == "histogram":
            buckets = self.buckets
            return Histogram(self.name, self.help, self.labels, buckets=buckets, registry=registry)
        kind = Counter if self.kind == "counter" else Gauge
        return kind(self.name, self.help, self.labels, registry=registry)


class MetricGroup(list[MetricDefinition]):
    """The metrics of one part of the service, which its methods define."""

    def __init__(self, *labels: str) -> None:
        super().__init__()
        self._labels = labels

    def counter(self, name: str, meaning: str, action: str, *labels: str) -> MetricDefinition:
        return self._add(MetricDefinition("counter", name, meaning, action, self._labels + labels))

    def gauge(self, name: str, meaning: str, action: str, *labels: str) -> MetricDefinition:
        return self._add(MetricDefinition("gauge", name, meaning, action, self._labels + labels))

    def histogram(
        self, name: str, meaning: str, action: str, *, buckets: tuple[float, ...] = DURATIONS
    ) -> MetricDefinition:
        labels = self._labels
        return self._add(MetricDefinition("histogram", name, meaning, action, labels, buckets))

    def _add(self, one: MetricDefinition) -> MetricDefinition:
        self.append(one)
        return one


Collectors = dict[MetricDefinition, Any]
"""Counters, gauges and histograms by their definitions."""


def register_all(
    registry: CollectorRegistry, definitions: Iterable[MetricDefinition]
) -> Collectors:
    return {one: one.register(registry) for one in definitions}
