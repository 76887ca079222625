"""The metrics of a producer. Nothing here says of which group a single report was, but batches."""

from __future__ import annotations

from calmstream.common.metric_definition import Collectors, MetricGroup
from calmstream.common.text import plan_name
from calmstream.estimators.plan import Plan
from calmstream.producer.gateway.totals import Failure, GatewayTotals

PRODUCER_METRICS = MetricGroup("plan")

SENT = PRODUCER_METRICS.counter(
    "calmstream_reports_sent_total",
    "Reports acknowledged by the broker.",
    "Flat while devices report: look at the batches in flight and at the broker.",
    "group",
)
RETRIED = PRODUCER_METRICS.counter(
    "calmstream_batches_retried_total",
    "Batches sent again; counting workers recognise them.",
    "Steady: the brokers fail or are slow.",
)
FAILED = PRODUCER_METRICS.counter(
    "calmstream_reports_failed_total",
    "Reports given up by this producer: the broker did not take `undelivered` ones; the window of "
    "`expired` ones ended before the broker had them; the disk of the spool has changed `damaged` "
    "ones; `defect` ones cannot be encoded.",
    "Any: these devices' reports are lost; see the producer's last line. Please report defects.",
    "reason",
)
SMALL = PRODUCER_METRICS.counter(
    "calmstream_reports_small_total",
    "Reports that left in batches below the least size, because their window ended.",
    "Much of the traffic: so few devices report in a window that one of them stands nearly alone. "
    "Make windows longer or groups fewer.",
)
IN_FLIGHT = PRODUCER_METRICS.gauge(
    "calmstream_batches_in_flight",
    "Batches sent and not acknowledged.",
    "At its limit the producer waits: the brokers do not take writes fast enough.",
)


class ProducerMetrics(GatewayTotals):
    """Totals that are metrics as well; their series exist at zero from the start."""

    def __init__(self, plan: Plan, to: Collectors) -> None:
        super().__init__()
        self._plan = plan_name(plan.name, plan.digest)
        self._to = to
        for group in map(str, range(len(plan.groups))):
            to[SENT].labels(self._plan, group)
        for why in Failure:
            to[FAILED].labels(self._plan, why)
        for definition in (RETRIED, SMALL, IN_FLIGHT):
            to[definition].labels(self._plan)

    def sent(self, group: int, reports: int) -> None:
        super().sent(group, reports)
        self._to[SENT].labels(self._plan, str(group)).inc(reports)

    def retried(self) -> None:
        super().retried()
        self._to[RETRIED].labels(self._plan).inc()

    def failed(self, reports: int, why: Failure) -> None:
        super().failed(reports, why)
        self._to[FAILED].labels(self._plan, why).inc(reports)

    def small(self, reports: int) -> None:
        super().small(reports)
        self._to[SMALL].labels(self._plan).inc(reports)

    def in_flight(self, batches: int) -> None:
        self._to[IN_FLIGHT].labels(self._plan).set(batches)
