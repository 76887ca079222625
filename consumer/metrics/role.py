"""Metrics of every role: whether it is ready, and when a broker last answered it."""

from __future__ import annotations

from calmstream.common.metric_definition import MetricGroup

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
