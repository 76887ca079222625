"""What a producer tells Prometheus: how many batches fared how, per group.

A device's group follows from its secret alone, so nothing here depends on a record.
"""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge

from broker.metric_definition import MetricDefinition
from estimators.plan import Plan

SENT = MetricDefinition(
    "calmstream_reports_sent_total",
    "counter",
    "reports",
    ("plan", "group"),
    "Reports acknowledged by the broker.",
    "Flat while devices report: look at the batches in flight and at the broker.",
)
RETRIED = MetricDefinition(
    "calmstream_batches_retried_total",
    "counter",
    "records",
    ("plan", "group"),
    "Batches sent again; counting workers recognise them.",
    "Steady: the brokers fail or are slow.",
)
FAILED = MetricDefinition(
    "calmstream_reports_failed_total",
    "counter",
    "reports",
    ("plan", "group"),
    "Reports given up by this producer; still in its spool where there is one.",
    "Any: these devices' reports are lost without a spool; see the producer's last line.",
)
IN_FLIGHT = MetricDefinition(
    "calmstream_batches_in_flight",
    "gauge",
    "records",
    ("plan",),
    "Batches sent and not acknowledged.",
    "At its limit the producer waits: the brokers do not take writes fast enough.",
)

PRODUCER_METRICS: tuple[MetricDefinition, ...] = (SENT, RETRIED, FAILED, IN_FLIGHT)


class ProducerMetrics:
    """A :class:`producer.courier.Observer` that counts.

    Args:
        plan: gives the ``plan`` label and the groups, whose series all exist at zero from the
            start.
        registry: where the series live.
    """

    def __init__(self, plan: Plan, registry: CollectorRegistry) -> None:
        self._plan = f"{plan.name}-{plan.digest[:8]}"
        self._sent, self._retried, self._failed = (
            Counter(d.name, d.help, d.labels, registry=registry) for d in (SENT, RETRIED, FAILED)
        )
        self._in_flight = Gauge(IN_FLIGHT.name, IN_FLIGHT.help, IN_FLIGHT.labels, registry=registry)
        for counter in (self._sent, self._retried, self._failed):
            for group in range(len(plan.groups)):
                counter.labels(self._plan, str(group))
        self._in_flight.labels(self._plan)

    def sent(self, group: int, reports: int) -> None:
        """See :class:`producer.courier.Observer`."""
        self._sent.labels(self._plan, str(group)).inc(reports)

    def retried(self, group: int) -> None:
        """See :class:`producer.courier.Observer`."""
        self._retried.labels(self._plan, str(group)).inc()

    def failed(self, group: int, reports: int) -> None:
        """See :class:`producer.courier.Observer`."""
        self._failed.labels(self._plan, str(group)).inc(reports)

    def in_flight(self, batches: int) -> None:
        """See :class:`producer.courier.Observer`."""
        self._in_flight.labels(self._plan).set(batches)
