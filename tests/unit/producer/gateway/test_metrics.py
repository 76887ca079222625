"""Check the metrics of a gateway against what happened to its reports."""

from prometheus_client import CollectorRegistry

from calmstream.common.metric_definition import MetricDefinition, register_all
from calmstream.producer.gateway.metrics import (
    FAILED,
    IN_FLIGHT,
    PRODUCER_METRICS,
    RETRIED,
    SENT,
    ProducerMetrics,
)
from calmstream.producer.gateway.sender import Budget
from calmstream.producer.gateway.totals import Failure
from calmstream.producer.simulation.produce import produce
from tests.support.faulty_broker import SendFault
from tests.support.producer import FakeClock, broker_for, make_plan, names_of, some_codes

PLAN = make_plan()
LABEL = f"{PLAN.name}-{PLAN.digest[:32]}"


def values(
    registry: CollectorRegistry, metric: MetricDefinition, why: Failure = Failure.UNDELIVERED
) -> list[float | None]:
    labels = {"plan": LABEL} | ({"reason": why.value} if "reason" in metric.labels else {})
    groups = [{"group": str(g)} for g in range(len(PLAN.groups))] if metric is SENT else [{}]
    return [registry.get_sample_value(metric.name, labels | group) for group in groups]


def test_what_happened_is_what_is_counted() -> None:
    registry, broker = CollectorRegistry(), broker_for(PLAN)
    names = names_of(PLAN)
    broker.faults.plan(names.reports(0), SendFault.FAIL, SendFault.FAIL, SendFault.FAIL)
    broker.faults.plan(names.reports(1), SendFault.FAIL)
    summary = produce(
        PLAN,
        broker,
        names,
        some_codes(500),
        retry_limits=Budget(attempts=3, pause=0.01),
        totals=ProducerMetrics(PLAN, register_all(registry, PRODUCER_METRICS)),
        clock=FakeClock(),
    )
    sent, failed, retried = (values(registry, metric) for metric in (SENT, FAILED, RETRIED))
    assert sum(sent) == summary.sent  # type: ignore[arg-type]
    assert sum(failed) == summary.failed == 500 - summary.sent  # type: ignore[arg-type]
    assert sent[0] == 0
    assert retried == [3.0]
    assert registry.get_sample_value(IN_FLIGHT.name, {"plan": LABEL}) == 0.0
