"""Check the metrics of a worker: all series exist from the start, with complete definitions."""

from __future__ import annotations

from prometheus_client import CollectorRegistry

from calmstream.common.errors import Reason
from calmstream.consumer.metrics.registry import plan_label, plan_metrics
from calmstream.consumer.metrics.tally import TALLY_METRICS
from tests.support.tally import names_of, small_plan

PLAN = small_plan(partitions=2, groups=3)


def series(registry: CollectorRegistry) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    return {
        (s.name, tuple(sorted(s.labels.items()))): s.value
        for family in registry.collect()
        for s in family.samples
        if not s.name.endswith("_created")
    }


def test_every_known_series_exists_at_zero_from_the_start() -> None:
    registry = CollectorRegistry()
    names = names_of(PLAN)
    plan_metrics(registry, PLAN, names, TALLY_METRICS)
    exported = series(registry)
    assert set(exported.values()) == {0.0}
    plan = ("plan", plan_label(PLAN))
    for reason in Reason:
        assert ("calmstream_rejections_total", (plan, ("reason", reason.value))) in exported
    for group in range(3):
        labels = (("group", str(group)), plan)
        assert ("calmstream_reports_accepted_total", labels) in exported
        for number in range(2):
            where = (("partition", str(number)), plan, ("topic", names.reports(group)))
            assert ("calmstream_consumer_lag_records", where) in exported
