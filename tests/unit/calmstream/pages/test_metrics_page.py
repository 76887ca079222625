"""Check that the page of metrics lists all exported metrics and is current."""

from __future__ import annotations

from pathlib import Path

from broker.names import TopicNames
from calmstream.pages.metrics_page import ALL_METRICS, page
from consumer.central.metrics import CentralMetrics
from consumer.metrics.plan import plan_metrics
from consumer.metrics.publisher import publisher_metrics
from consumer.metrics.registry import new_registry, tally_metrics
from estimators.central.plan import CentralPlan
from producer.gateway.metrics import ProducerMetrics
from tests.support.tally import names_of, small_plan

ROOT = Path(__file__).resolve().parents[4]
PLAN = small_plan(partitions=2, groups=3)
CENTRAL = CentralPlan("central", "", "", ("a", "b"), "1", "1e-6", 2, 0, 60, 1)


def exported() -> dict[str, set[str]]:
    """Return the sample names with their labels, of all roles together; bucket bounds left out."""
    registry, names = new_registry(), names_of(PLAN)
    tally_metrics(registry, PLAN, names)
    publisher_metrics(registry, PLAN, names)
    plan_metrics(registry, PLAN, names, 1.0)
    ProducerMetrics(PLAN, registry)
    CentralMetrics(registry, CENTRAL)
    return {
        sample.name: set(sample.labels) - {"le"}
        for family in registry.collect()
        for sample in family.samples
    }


def test_the_page_is_current() -> None:
    written = (ROOT / "docs" / "metrics.md").read_text()
    assert written == page(), "run: python -m calmstream.pages.metrics_page > docs/metrics.md"


def test_what_is_declared_is_what_is_exported() -> None:
    declared: dict[str, set[str]] = {}
    for metric in ALL_METRICS:
        histogram = metric.kind == "histogram"
        for suffix in ("_bucket", "_count", "_sum") if histogram else ("",):
            declared[metric.name + suffix] = set(metric.labels)
    # No _created series among them either: the comparison is of all that is exported.
    assert exported() == declared


def test_no_name_is_declared_twice() -> None:
    assert len({metric.name for metric in ALL_METRICS}) == len(ALL_METRICS)


def test_the_plan_in_numbers() -> None:
    registry = new_registry()
    names: TopicNames = names_of(PLAN)
    plan_metrics(registry, PLAN, names, 123.5)
    values = {s.name: s.value for family in registry.collect() for s in family.samples}
    assert values == {
        "calmstream_process_started_timestamp_seconds": 123.5,
        "calmstream_plan_start_timestamp_seconds": PLAN.start,
        "calmstream_plan_expiry_timestamp_seconds": PLAN.expires,
        "calmstream_plan_window_seconds": 10,
        "calmstream_plan_grace_seconds": 3,
        "calmstream_plan_window_reports": 1000,
        "calmstream_plan_input_partitions": 6,
        "calmstream_plan_report_epsilon": 1,
        "calmstream_plan_device_epsilon": 1,
    }
