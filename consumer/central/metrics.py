"""Metrics of the aggregator. They depend neither on the content nor on the number of records."""

from __future__ import annotations

from prometheus_client import CollectorRegistry

from broker.metric_definition import MetricDefinition
from consumer.metrics.registry import Metrics
from estimators.central.ledger import Ledger
from estimators.central.plan import CentralPlan

RELEASES = MetricDefinition(
    "calmstream_central_releases_total",
    "counter",
    "releases",
    ("plan",),
    "Releases sent since the aggregator started.",
    "Flat while windows end: look at the aggregator's log and at the budget.",
)
REFUSED = MetricDefinition(
    "calmstream_central_refused_total",
    "counter",
    "releases",
    ("plan",),
    "Releases refused because the privacy budget is spent.",
    "Above 0: the plan's budget is spent as planned; this is not a fault.",
)
SPENT = MetricDefinition(
    "calmstream_central_budget_spent_ratio",
    "gauge",
    "ratio",
    ("plan",),
    "Spent part of the plan's rho, its privacy budget; releases lost in crashes included.",
    "Larger than the part of windows that have passed: releases were lost in crashes.",
)
SKIPPED = MetricDefinition(
    "calmstream_central_skipped_total",
    "counter",
    "windows",
    ("plan",),
    "Windows left out: claimed by another aggregator or by one that failed, or older than raw "
    "records are kept.",
    "Above 0: a second aggregator runs, or this one failed or stood still; see its log.",
)


CENTRAL_METRICS = (RELEASES, REFUSED, SPENT, SKIPPED)
"""All metrics of the aggregator."""


class CentralMetrics:
    """The registered metrics of an aggregator; every series starts at 0.

    Args:
        registry: the registry of the process.
        plan: the central plan, whose name is a label.
    """

    def __init__(self, registry: CollectorRegistry, plan: CentralPlan) -> None:
        labels = {"plan": [f"{plan.name}-{plan.digest[:8]}"]}
        self._metrics = Metrics(registry, CENTRAL_METRICS, labels)

    def released(self) -> None:
        """Count a release that was sent."""
        self._metrics.inc(RELEASES)

    def refused(self) -> None:
        """Count a release that was refused because the budget is spent."""
        self._metrics.inc(REFUSED)

    def spent(self, ledger: Ledger) -> None:
        """Set the part of the budget that the account has spent."""
        self._metrics.set(SPENT, float(ledger.spent.rho / ledger.budget.rho))

    def skipped(self) -> None:
        """Count a window that was left out."""
        self._metrics.inc(SKIPPED)
