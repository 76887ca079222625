"""Makes the metrics of one role of a plan; every known series (set of labels) starts at 0."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, disable_created_metrics

from calmstream.broker.names import TopicNames
from calmstream.common.errors import Reason
from calmstream.common.metrics import MetricDefinition, Metrics
from calmstream.common.text import plan_name
from calmstream.estimators.plan import Plan


def plan_label(plan: Plan) -> str:
    return plan_name(plan.name, plan.digest)


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
