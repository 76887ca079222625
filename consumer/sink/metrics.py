"""Metrics of a sink."""

from __future__ import annotations

from calmstream.common.metrics import MetricGroup

SINK_METRICS = MetricGroup("plan")

SETS = SINK_METRICS.counter(
    "calmstream_sink_sets_stored_total",
    "Sets that this process stored in its target; those that were already there do not count.",
    "Flat while snapshots are published: look at the failures and at the log.",
)
FAILURES = SINK_METRICS.counter(
    "calmstream_sink_failures_total",
    "Attempts to store sets that failed and are repeated.",
    "Rising: the target does not answer, its disk is full, or another process has it open.",
)
WAITING = SINK_METRICS.gauge(
    "calmstream_sink_waiting_sets",
    "Sets that were read and are not stored yet.",
    "Above 0 for minutes: the target does not answer; nothing is lost meanwhile.",
)
FINALS = SINK_METRICS.gauge(
    "calmstream_sink_windows_final",
    "Windows up to the newest final that is in the target; 0 until this process has looked.",
    "Below calmstream_windows_final for minutes: the target or the brokers do not answer.",
)
QUARANTINED = SINK_METRICS.gauge(
    "calmstream_sink_quarantined",
    "Whether this sink has stopped storing the results of the plan because of a fault; 0 or 1.",
    "As for calmstream_tally_quarantined. The snapshots topic keeps the results meanwhile.",
)
FAULTS = SINK_METRICS.counter(
    "calmstream_sink_faults_total",
    "Faults that stopped the storing of one plan's results, attempts that failed again included.",
    "Rising: the plan's fault is still there.",
)
