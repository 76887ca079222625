"""What a producer tells Prometheus: how many batches fared how, per group.

A device's group follows from its secret alone, so nothing here depends on a record.
"""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge

from estimators.plan import Plan

SENT = "calmstream_reports_sent_total"
RETRIED = "calmstream_batches_retried_total"
FAILED = "calmstream_reports_failed_total"
IN_FLIGHT = "calmstream_batches_in_flight"


class ProducerMetrics:
    """A :class:`producer.courier.Observer` that counts.

    Args:
        plan: gives the ``plan`` label (8 digits of its digest) and the groups, whose series all
            exist at zero from the start.
        registry: where the series live.
    """

    def __init__(self, plan: Plan, registry: CollectorRegistry) -> None:
        labels = ("plan", "group")
        self._plan = plan.digest[:8]
        self._sent = Counter(SENT, "Reports acknowledged by the broker.", labels, registry=registry)
        self._retried = Counter(RETRIED, "Batches sent again.", labels, registry=registry)
        self._failed = Counter(FAILED, "Reports given up.", labels, registry=registry)
        self._in_flight = Gauge(
            IN_FLIGHT, "Batches sent and not acknowledged.", ("plan",), registry=registry
        )
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
