"""Metrics: their definitions, which the documentation lists, and what sets them.

``plan`` is the plan's name, a hyphen and the first 32 digits of its digest, as in topic names.
Units are base units (seconds, records, reports).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal
from weakref import WeakKeyDictionary

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


Collector = Counter | Gauge | Histogram

_REGISTERED: WeakKeyDictionary[CollectorRegistry, dict[MetricDefinition, Collector]] = (
    WeakKeyDictionary()
)
"""What was registered, since a registry takes each name only once."""


class Metrics:
    """Registered metrics, with the label of their plan filled in; every known series starts at 0.

    ``labels`` has the values of each label. Safe for several threads.
    """

    def __init__(
        self,
        registry: CollectorRegistry,
        definitions: Iterable[MetricDefinition],
        labels: Mapping[str, Iterable[str]],
    ) -> None:
        self.registry = registry
        self._plan = next(iter(labels.get("plan", ())), "")
        self._collectors: dict[str, Collector] = {}
        self._series: list[tuple[Collector, tuple[str, ...]]] = []
        self._children: dict[tuple[object, ...], Collector] = {}
        registered = _REGISTERED.setdefault(registry, {})
        for definition in definitions:
            if definition not in registered:
                registered[definition] = definition.register(registry)
            collector = self._collectors[definition.name] = registered[definition]
            if definition.labels:
                for values in product(*(labels[name] for name in definition.labels)):
                    collector.labels(*values)
                    self._series.append((collector, values))

    def inc(self, definition: MetricDefinition, amount: float = 1, **labels: str) -> None:
        child = self._child(definition, labels)
        assert isinstance(child, Counter)
        child.inc(amount)

    def set(self, definition: MetricDefinition, value: float, **labels: str) -> None:
        child = self._child(definition, labels)
        assert isinstance(child, Gauge)
        child.set(value)

    def set_all(self, value: float, *definitions: MetricDefinition) -> None:
        for definition in definitions:
            collector: Any = self._collectors[definition.name]
            for values in (values for one, values in self._series if one is collector):
                collector.labels(*values).set(value)

    def observe(self, definition: MetricDefinition, value: float, **labels: str) -> None:
        child = self._child(definition, labels)
        assert isinstance(child, Histogram)
        child.observe(value)

    def remove(self) -> None:
        """Remove all series with labels, if they are there; this object is not used afterwards."""
        for collector, values in self._series:
            with suppress(KeyError):
                collector.remove(*values)

    def _child(self, definition: MetricDefinition, labels: dict[str, str]) -> Collector:
        # To find a series by its labels costs much more than this look.
        key = (definition.name, *labels.items())
        child = self._children.get(key)
        if child is None:
            if "plan" in definition.labels:
                labels["plan"] = self._plan
            collector = self._collectors[definition.name]
            child = self._children[key] = collector.labels(**labels) if labels else collector
        return child
