"""Definitions of the metrics of a process that serves a folder of plans."""

from __future__ import annotations

from calmstream.common.metric_definition import MetricDefinition

TALLY_QUARANTINED = MetricDefinition(
    "calmstream_tally_quarantined",
    "gauge",
    "workers",
    ("plan",),
    "Whether this worker has stopped counting the plan because of a fault; 0 or 1.",
    "1: read the reason at /readyz or in the log; the worker tries again with growing pauses, and "
    "counts all other plans meanwhile.",
)
PUBLISHER_QUARANTINED = MetricDefinition(
    "calmstream_publisher_quarantined",
    "gauge",
    "publishers",
    ("plan",),
    "Whether this publisher has stopped publishing the plan because of a fault; 0 or 1.",
    "As for calmstream_tally_quarantined.",
)
SINK_QUARANTINED = MetricDefinition(
    "calmstream_sink_quarantined",
    "gauge",
    "sinks",
    ("plan",),
    "Whether this sink has stopped storing the results of the plan because of a fault; 0 or 1.",
    "As for calmstream_tally_quarantined. The snapshots topic keeps the results meanwhile.",
)
TALLY_FAULTS = MetricDefinition(
    "calmstream_tally_faults_total",
    "counter",
    "faults",
    ("plan",),
    "Faults that stopped the counting of one plan, attempts that failed again included.",
    "Rising: the plan's fault is still there.",
)
PUBLISHER_FAULTS = MetricDefinition(
    "calmstream_publisher_faults_total",
    "counter",
    "faults",
    ("plan",),
    "Faults that stopped the publishing of one plan, attempts that failed again included.",
    "Rising: the plan's fault is still there.",
)
SINK_FAULTS = MetricDefinition(
    "calmstream_sink_faults_total",
    "counter",
    "faults",
    ("plan",),
    "Faults that stopped the storing of one plan's results, attempts that failed again included.",
    "Rising: the plan's fault is still there.",
)
PLANS_SERVED = MetricDefinition(
    "calmstream_plans_served",
    "gauge",
    "plans",
    (),
    "Plans of the folder that can be served.",
    "Compare with the number of files.",
)
FILES_REFUSED = MetricDefinition(
    "calmstream_plan_files_refused",
    "gauge",
    "files",
    (),
    "Files of the folder that are not served: not a plan, not signed by a trusted root, another "
    "plan under a name in use, or too many.",
    "Above 0: each has a log line with the reason; repair or remove the file.",
)
FOLDER_UNREADABLE = MetricDefinition(
    "calmstream_plan_folder_unreadable",
    "gauge",
    "folders",
    (),
    "Whether the folder of plans could not be read the last time; the plans stay as they were.",
    "1: look at the mount and its permissions.",
)

FOLDER_METRICS = (PLANS_SERVED, FILES_REFUSED, FOLDER_UNREADABLE)
TALLY_PLAN_METRICS = (TALLY_QUARANTINED, TALLY_FAULTS)
PUBLISHER_PLAN_METRICS = (PUBLISHER_QUARANTINED, PUBLISHER_FAULTS)
SINK_PLAN_METRICS = (SINK_QUARANTINED, SINK_FAULTS)
PLANS_METRICS = (
    *FOLDER_METRICS,
    *TALLY_PLAN_METRICS,
    *PUBLISHER_PLAN_METRICS,
    *SINK_PLAN_METRICS,
)
