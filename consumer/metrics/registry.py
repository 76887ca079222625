"""Registers the metrics of one role of a plan; every known series (set of labels) starts at 0."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from itertools import product
from typing import Any
from weakref import WeakKeyDictionary

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
)

from calmstream.broker.names import TopicNames
from calmstream.common.errors import Reason
from calmstream.common.metric_definition import MetricDefinition
from calmstream.common.text import plan_name
from calmstream.estimators.plan import Plan

Collector = Counter | Gauge | Histogram

_REGISTERED: WeakKeyDictionary[CollectorRegistry, dict[MetricDefinition, Collector]] = (
    WeakKeyDictionary()
)
"""What was registered, since a registry takes each name only once."""


def plan_label(plan: Plan) -> str:
    return plan_name(plan.name, plan.digest)


class Metrics:
    """The registered metrics of a plan, whose label is filled in. Safe for several threads."""

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
        collector = self._collectors[definition.name]
        if "plan" in definition.labels:
            labels["plan"] = self._plan
        return collector.labels(**labels) if labels else collector


def new_registry() -> CollectorRegistry:
    """Return a registry without series ``_created``: they double the number and help nobody."""
    disable_created_metrics()  # type: ignore[no-untyped-call]
    return CollectorRegistry()


def plan_metrics(
    registry: CollectorRegistry,
    plan: Plan,
    names: TopicNames,
    definitions: Iterable[MetricDefinition],
) -> Metrics:
    labels = {
        "plan": [plan_label(plan)],
        "group": [str(group) for group in range(len(plan.groups))],
        "reason": [reason.value for reason in Reason],
        "topic": list(names.all_reports),
        "against": ["previous", "before"],
        "partition": [str(number) for number in range(plan.partitions)],
    }
    return Metrics(registry, definitions, labels)
