"""Check that the page of metrics lists exactly the exported ones."""

from __future__ import annotations

from calmstream.consumer.central.metrics import central_metrics
from calmstream.consumer.metrics.plan import (
    FOLDER_METRICS,
    PLAN_METRICS,
    ROLE_METRICS,
)
from calmstream.consumer.metrics.publisher import PUBLISHER_METRICS
from calmstream.consumer.metrics.registry import new_registry, plan_metrics
from calmstream.consumer.metrics.tally import TALLY_METRICS
from calmstream.consumer.serve.metrics import ServeMetrics
from calmstream.consumer.sink.metrics import SINK_METRICS
from calmstream.producer.gateway.http.metrics import GatewayMetrics
from deploy.site import metrics
from tests.support.central import PLAN as CENTRAL
from tests.support.deploy import ALL_METRICS, sample_names
from tests.support.tally import names_of, small_plan

PLAN = small_plan(partitions=2, groups=3)


def exported() -> dict[str, set[str]]:
    """Return the labels by name of the sample, for the metrics of all processes together.

    The label ``le`` of histograms, the bound of a bucket, is left out.
    """
    registry, names = new_registry(), names_of(PLAN)
    for group in (TALLY_METRICS, PUBLISHER_METRICS, PLAN_METRICS, FOLDER_METRICS, SINK_METRICS):
        plan_metrics(registry, PLAN, names, group)
    GatewayMetrics(registry).of_plan(PLAN)
    central_metrics(registry, CENTRAL)
    ServeMetrics(registry).turned(0, 0, {"plan": 0})
    for definition in ROLE_METRICS:
        definition.register(registry).labels("tally")
    return {
        sample.name: set(sample.labels) - {"le"}
        for family in registry.collect()
        for sample in family.samples
    }


def test_names_and_labels_of_metrics_follow_the_conventions() -> None:
    labels = {"plan", "against", "group", "reason", "role", "topic", "partition"}
    for metric in ALL_METRICS:
        assert metric.name.startswith("calmstream_")
        assert (metric.kind == "counter") == metric.name.endswith("_total")
        assert labels.issuperset(metric.labels)


def test_the_page_says_of_every_metric_what_to_do() -> None:
    entries = metrics().split("\n### `")[1:]
    assert [entry.partition("`")[0] for entry in entries] == [metric.name for metric in ALL_METRICS]
    for entry, metric in zip(entries, ALL_METRICS, strict=True):
        assert metric.help in entry
        assert metric.action in entry


def test_the_declared_metrics_are_the_exported_metrics() -> None:
    labels = {metric.name: set(metric.labels) for metric in ALL_METRICS}
    declared = {name: labels[metric] for name, metric in sample_names().items()}
    # Everything that is exported is compared, so a `_created` series would be found too.
    assert exported() == declared
