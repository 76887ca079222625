"""Check that the dashboards show every exported metric and are as their generator writes them."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

import pytest

from tests.support.deploy import (
    ALL_METRICS,
    DEPLOY,
    alerts,
    load,
    metrics_in,
    panels,
    rules,
    sample_names,
)

GRAFANA = DEPLOY / "grafana"
FILES = sorted((GRAFANA / "dashboards").glob("*.json"))
OF_PROCESSES = {"CalmstreamAbsent", "CalmstreamRestartLoop"}
"""Alerts about processes, whatever their plans are."""
each_file = pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)


def queries() -> list[str]:
    return [target["expr"] for panel in panels().values() for target in panel["targets"]]


def test_every_metric_that_a_panel_names_is_exported() -> None:
    for query in queries():
        assert metrics_in(query) <= set(sample_names()), query


def test_every_recording_rule_that_a_panel_names_exists() -> None:
    records = {rule["record"] for rule in rules() if "record" in rule}
    named = {name for query in queries() for name in re.findall(r"calmstream:[a-z0-9_:]+", query)}
    assert named == records, "a rule that nobody looks at, or a look at no rule"


def test_every_exported_metric_has_a_panel() -> None:
    shown = {sample_names()[name] for query in queries() for name in metrics_in(query)}
    assert set(sample_names().values()) - shown == set()


def test_every_series_of_a_plan_can_be_chosen_and_is_named() -> None:
    """Nobody can read a panel of ten plans whose lines have one name."""
    of_plans = {metric.name for metric in ALL_METRICS if "plan" in metric.labels}
    for panel in panels().values():
        for target in panel["targets"]:
            query, legend = target["expr"], target["legendFormat"]
            if not {sample_names()[name] for name in metrics_in(query)} & of_plans:
                continue
            assert 'plan=~"$plan"' in query, panel["title"]
            summed = re.search(r" by \(([a-z, ]+)\)", query)
            labels = summed.group(1).split(", ") if summed else ["plan"]
            assert "plan" not in labels or "{{plan}}" in legend, panel["title"]


def test_every_alert_about_a_plan_names_it_or_its_topic() -> None:
    of_plans = {metric.name for metric in ALL_METRICS if "plan" in metric.labels}
    for alert in alerts().values():
        metrics = {sample_names()[name] for name in metrics_in(alert["expr"])}
        if metrics and metrics <= of_plans and alert["alert"] not in OF_PROCESSES:
            summary = alert["annotations"]["summary"]
            assert "$labels.plan" in summary or "$labels.topic" in summary, alert["alert"]


def test_the_files_are_what_the_generator_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(GRAFANA)
    build = importlib.import_module("build")
    assert {path.stem for path in FILES} == {*build.DASHBOARDS, build.RESULTS}
    for path in FILES:
        assert path.read_text() == build.text(path.stem), "run: python deploy/grafana/build.py"


@each_file
def test_no_two_panels_lie_over_each_other(path: Path) -> None:
    taken: set[tuple[int, int]] = set()
    for panel in load(path)["panels"]:
        at = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert max(x for x, _ in cells) < 24
        assert not cells & taken, panel["title"]
        taken |= cells


@each_file
def test_everything_uses_the_provisioned_source(path: Path) -> None:
    name = "results" if path.stem == "results" else "prometheus"
    (source,) = load(GRAFANA / "provisioning" / "datasources" / f"{name}.yaml")["datasources"]
    assert source["editable"] is False
    assert load(path)["panels"][-1]["datasource"]["type"] == source["type"]

    def uids(node: Any) -> set[str]:
        if isinstance(node, list):
            return set().union(*map(uids, node))
        if not isinstance(node, dict):
            return set()
        sources = {node["datasource"]["uid"]} if "datasource" in node else set()
        return sources.union(*map(uids, node.values()))

    assert uids(load(path)) == {source["uid"]}
