"""Metrics of the aggregator. None of them counts records: that number is private."""

from __future__ import annotations

from collections.abc import Mapping

from prometheus_client import CollectorRegistry

from broker.metric_definition import MetricDefinition
from consumer.metrics import Metrics
from estimators.central.ledger import Ledger
from estimators.central.plan import CentralPlan
from estimators.errors import Reason

RELEASES = MetricDefinition(
    "calmstream_central_releases_total",
    "counter",
    "releases",
    ("plan",),
    "Releases that left since the aggregator started.",
    "Flat while windows end: look at its log and at the budget.",
)
REFUSED = MetricDefinition(
    "calmstream_central_refused_total",
    "counter",
    "releases",
    ("plan",),
    "Releases refused because the privacy budget is spent.",
    "Not a fault: the plan has published all that it promised to.",
)
SPENT = MetricDefinition(
    "calmstream_central_budget_spent_ratio",
    "gauge",
    "ratio",
    ("plan",),
    "Part of the plan's rho that is spent, releases begun and lost included.",
    "Ahead of the windows that have passed: releases were lost to crashes.",
)
REJECTED = MetricDefinition(
    "calmstream_central_rejections_total",
    "counter",
    "Kafka records",
    ("plan", "reason"),
    "Records of the raw topic (batches) refused, by reason; they are dropped.",
    "unknown_version: perturbed reports or another sender write to the raw topic.",
)


CENTRAL_METRICS = (RELEASES, REFUSED, SPENT, REJECTED)
"""All of them."""


class CentralMetrics:
    """The aggregator's metrics, every series from zero."""

    def __init__(self, registry: CollectorRegistry, plan: CentralPlan) -> None:
        """Register them for one plan."""
        labels = {
            "plan": [f"{plan.name}-{plan.digest[:8]}"],
            "reason": [reason.value for reason in Reason],
        }
        self._metrics = Metrics(registry, CENTRAL_METRICS, labels)
        self._rejected: dict[Reason, int] = {}

    def released(self) -> None:
        """One more release has left."""
        self._metrics.inc(RELEASES)

    def refused(self) -> None:
        """One was refused."""
        self._metrics.inc(REFUSED)

    def spent(self, ledger: Ledger) -> None:
        """The account as it stands."""
        self._metrics.set(SPENT, float(ledger.spent.rho / ledger.budget.rho))

    def rejected(self, totals: Mapping[Reason, int]) -> None:
        """Refusals since the start, by reason."""
        for reason, total in totals.items():
            more = total - self._rejected.get(reason, 0)
            if more:
                self._metrics.inc(REJECTED, more, reason=reason.value)
                self._rejected[reason] = total
