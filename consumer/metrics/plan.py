"""Metrics that every process of the service exports: its roles, and the numbers of the plan."""

from __future__ import annotations

from calmstream.common.metrics import MetricGroup, Metrics
from calmstream.estimators.plan import Plan
from calmstream.estimators.plan.loss import loss_plan

# What to do about a metric that never changes.
_NEVER = "Constant."

PLAN_METRICS = MetricGroup("plan")
FOLDER_METRICS = MetricGroup()
ROLE_METRICS = MetricGroup("role")

READY = ROLE_METRICS.gauge(
    "calmstream_ready",
    "Whether the role does its work, as /readyz says.",
    "0: /readyz and the log name the cause and the remedy.",
)
BROKER_SILENT = ROLE_METRICS.gauge(
    "calmstream_broker_silent_seconds",
    "Age of the last answer from a broker while requests fail; 0 while they are answered.",
    "Above 30: look at the brokers and at the network between. The role ends after its retry time.",
)
STARTED = PLAN_METRICS.gauge(
    "calmstream_process_started_timestamp_seconds",
    "When this process of the service started.",
    "Changes often: the process fails and is restarted; read the last lines of its log.",
)
PLAN_STARTS = PLAN_METRICS.gauge(
    "calmstream_plan_start_timestamp_seconds",
    "Start of the plan's first window.",
    _NEVER,
)
PLAN_EXPIRES = PLAN_METRICS.gauge(
    "calmstream_plan_expiry_timestamp_seconds",
    "End of the plan's last window.",
    "Near: decide whether a plan of the same lineage follows; devices need it before.",
)
PLAN_WINDOW = PLAN_METRICS.gauge(
    "calmstream_plan_window_seconds",
    "Length of a window.",
    _NEVER,
)
PLAN_GRACE = PLAN_METRICS.gauge(
    "calmstream_plan_grace_seconds",
    "How long a window waits for late reports.",
    _NEVER,
)
PLAN_REPORTS = PLAN_METRICS.gauge(
    "calmstream_plan_window_reports",
    "Reports expected in each window; the plan's expected errors are for this number.",
    _NEVER,
)
PLAN_PARTITIONS = PLAN_METRICS.gauge(
    "calmstream_plan_input_partitions",
    "Partitions of all reports topics together.",
    "Compare the sum of the assigned partitions with it.",
)
PLAN_EPSILON = PLAN_METRICS.gauge(
    "calmstream_plan_report_epsilon",
    "Privacy loss of one report, for all of its attributes together.",
    _NEVER,
)
PLAN_LOSS = PLAN_METRICS.gauge(
    "calmstream_plan_device_epsilon",
    "Maximum privacy loss of one device over the whole plan.",
    "Constant. Under w-event it grows with the plan's life: make that life short.",
)
PLANS_SERVED = FOLDER_METRICS.gauge(
    "calmstream_plans_served",
    "Plans of the folder that can be served.",
    "Compare with the number of files.",
)
FILES_REFUSED = FOLDER_METRICS.gauge(
    "calmstream_plan_files_refused",
    "Files of the folder that are not served: not a plan, not signed by a trusted root, another "
    "plan under a name in use, or too many.",
    "Above 0: each has a log line with the reason; repair or remove the file.",
)
FOLDER_UNREADABLE = FOLDER_METRICS.gauge(
    "calmstream_plan_folder_unreadable",
    "Whether the folder of plans could not be read the last time; the plans stay as they were.",
    "1: look at the mount and its permissions.",
)


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
