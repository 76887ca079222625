"""Metrics of the aggregator; none depends on the content or the number of records."""

from __future__ import annotations

from prometheus_client import CollectorRegistry

from calmstream.common.metrics import MetricGroup, Metrics
from calmstream.common.text import plan_name
from calmstream.estimators.central.plan import CentralPlan

CENTRAL_METRICS = MetricGroup("plan")

RELEASES = CENTRAL_METRICS.counter(
    "calmstream_central_releases_total",
    "Releases sent since the aggregator started.",
    "If it does not rise although windows end: look at the aggregator's log and at the budget.",
)
REFUSED = CENTRAL_METRICS.counter(
    "calmstream_central_refused_total",
    "Releases refused because the privacy budget is spent.",
    "Above 0: the plan has used its whole budget, as planned. This is not a fault.",
)
SPENT = CENTRAL_METRICS.gauge(
    "calmstream_central_budget_spent_ratio",
    "Spent part of the plan's privacy budget; releases lost in crashes included.",
    "Larger than the share of windows that are over: releases were lost in crashes.",
)
SKIPPED = CENTRAL_METRICS.counter(
    "calmstream_central_skipped_total",
    "Windows left out: claimed by another aggregator or by one that failed, or so old that "
    "their raw records are deleted.",
    "Above 0: a second aggregator runs, or this one failed or was suspended for some time; "
    "see its log.",
)


def central_metrics(registry: CollectorRegistry, plan: CentralPlan) -> Metrics:
    labels = {"plan": [plan_name(plan.name, plan.digest)]}
    return Metrics(registry, CENTRAL_METRICS, labels)
