"""The metrics of a producer. Groups are named of whole batches only, never of a single report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from enum import StrEnum

from prometheus_client import CollectorRegistry

from calmstream.common.metrics import MetricGroup, Metrics
from calmstream.common.text import plan_name
from calmstream.estimators.plan import Plan

PRODUCER_METRICS = MetricGroup("plan")


class Failure(StrEnum):
    """Why a report was given up. A closed list: it is a metric label."""

    UNDELIVERED = "undelivered"  # the broker refused its batch or did not acknowledge it in time
    EXPIRED = "expired"  # its window ended before the broker acknowledged its batch
    DAMAGED = "damaged"  # the disk of the spool has changed its batch
    DEFECT = "defect"  # it cannot be encoded, although it was read and checked


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


class GatewayTotals:
    """Counts what happens to one plan's batches, as metrics too.

    A batch that failed may still be in the log, if only its acknowledgement was lost.
    """

    def __init__(self, plan: Plan | None = None, registry: CollectorRegistry | None = None) -> None:
        self.batches_sent = self.reports_sent = self.retries = 0
        self.failures: Counter[Failure] = Counter()
        groups = [] if plan is None else [str(group) for group in range(len(plan.groups))]
        names = [] if plan is None else [plan_name(plan.name, plan.digest)]
        labels: dict[str, Iterable[str]] = {"plan": names, "group": groups, "reason": list(Failure)}
        self._metrics = Metrics(registry or CollectorRegistry(), PRODUCER_METRICS, labels)

    @property
    def reports_failed(self) -> int:
        return self.failures.total()

    def sent(self, group: int, reports: int) -> None:
        self.batches_sent += 1
        self.reports_sent += reports
        self._metrics.inc(SENT, reports, group=str(group))

    def retried(self) -> None:
        self.retries += 1
        self._metrics.inc(RETRIED)

    def failed(self, reports: int, why: Failure) -> None:
        self.failures[why] += reports
        self._metrics.inc(FAILED, reports, reason=why)

    def small(self, reports: int) -> None:
        self._metrics.inc(SMALL, reports)

    def in_flight(self, batches: int) -> None:
        self._metrics.set(IN_FLIGHT, batches)
