"""Definitions of the metrics that state the numbers of the plan, to compare other metrics with.

Every process of the service exports them, whatever its roles are.
"""

from __future__ import annotations

from prometheus_client import CollectorRegistry

from calmstream.broker.names import TopicNames
from calmstream.common.metric_definition import MetricDefinition
from calmstream.consumer.metrics.registry import Metrics, known_labels
from calmstream.estimators.plan import Plan
from calmstream.estimators.plan.loss import loss_plan

# What to do about a metric that never changes.
_NEVER = "Constant."

STARTED = MetricDefinition(
    "calmstream_process_started_timestamp_seconds",
    "gauge",
    "seconds since the epoch",
    ("plan",),
    "When this process of the service started.",
    "Changes often: the process fails and is restarted; read the last lines of its log.",
)
PLAN_STARTS = MetricDefinition(
    "calmstream_plan_start_timestamp_seconds",
    "gauge",
    "seconds since the epoch",
    ("plan",),
    "Start of the plan's first window.",
    _NEVER,
)
PLAN_EXPIRES = MetricDefinition(
    "calmstream_plan_expiry_timestamp_seconds",
    "gauge",
    "seconds since the epoch",
    ("plan",),
    "End of the plan's last window.",
    "Near: decide whether a plan of the same lineage follows; devices need it before.",
)
PLAN_WINDOW = MetricDefinition(
    "calmstream_plan_window_seconds",
    "gauge",
    "seconds",
    ("plan",),
    "Length of a window.",
    _NEVER,
)
PLAN_GRACE = MetricDefinition(
    "calmstream_plan_grace_seconds",
    "gauge",
    "seconds",
    ("plan",),
    "How long a window waits for late reports.",
    _NEVER,
)
PLAN_REPORTS = MetricDefinition(
    "calmstream_plan_window_reports",
    "gauge",
    "reports",
    ("plan",),
    "Reports expected in each window; the plan's expected errors are for this number.",
    _NEVER,
)
PLAN_PARTITIONS = MetricDefinition(
    "calmstream_plan_input_partitions",
    "gauge",
    "partitions",
    ("plan",),
    "Partitions of all reports topics together.",
    "Compare the sum of the assigned partitions with it.",
)
PLAN_EPSILON = MetricDefinition(
    "calmstream_plan_report_epsilon",
    "gauge",
    "nats",
    ("plan",),
    "Privacy loss of one report, for all of its attributes together.",
    _NEVER,
)
PLAN_LOSS = MetricDefinition(
    "calmstream_plan_device_epsilon",
    "gauge",
    "nats",
    ("plan",),
    "Maximum privacy loss of one device over the whole plan.",
    "Constant. Under w-event it grows with the plan's life: make that life short.",
)

PLAN_METRICS: tuple[MetricDefinition, ...] = (
    STARTED,
    PLAN_STARTS,
    PLAN_EXPIRES,
    PLAN_WINDOW,
    PLAN_GRACE,
    PLAN_REPORTS,
    PLAN_PARTITIONS,
    PLAN_EPSILON,
    PLAN_LOSS,
)


def plan_metrics(
    registry: CollectorRegistry, plan: Plan, names: TopicNames, started: float
) -> Metrics:
    """Register the plan's numbers and set them; called once in each process."""
    metrics = Metrics(registry, PLAN_METRICS, known_labels(plan, names))
    set_plan_numbers(metrics, plan, started)
    return metrics


def set_plan_numbers(metrics: Metrics, plan: Plan, started: float) -> None:
    """Set the plan's numbers; ``started`` is when this process did, in seconds since the epoch."""
    metrics.set(STARTED, started)
    metrics.set(PLAN_STARTS, plan.start)
    metrics.set(PLAN_EXPIRES, plan.expires)
    metrics.set(PLAN_WINDOW, plan.window)
    metrics.set(PLAN_GRACE, plan.grace)
    metrics.set(PLAN_REPORTS, plan.users)
    metrics.set(PLAN_PARTITIONS, len(plan.groups) * plan.partitions)
    metrics.set(PLAN_EPSILON, float(plan.epsilon))
    metrics.set(PLAN_LOSS, float(loss_plan(plan)))
