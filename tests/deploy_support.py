"""What the tests of deploy/ share: its files, the tools that judge them, the metrics there are."""

from __future__ import annotations

import os
import re
import shutil
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from calmstream.metrics_page import ALL_METRICS

ROOT = Path(__file__).resolve().parents[1]
DEPLOY = ROOT / "deploy"
RULES = DEPLOY / "prometheus" / "rules.yaml"
_METRIC = re.compile(r"\bcalmstream_[a-z0-9_]+")


def tool(name: str) -> str:
    """Path of a program of Prometheus; skips the test, or fails it where CI demands it."""
    path = shutil.which(name)
    if path is not None:
        return path
    why = f"{name} is not installed (Debian: apt-get install prometheus)"
    if os.environ.get("CALMSTREAM_REQUIRE_BROKER", "") not in {"", "0"}:
        pytest.fail(why)
    pytest.skip(why)


def load(path: Path) -> Any:
    return yaml.safe_load(path.read_text())


@cache
def rules() -> list[dict[str, Any]]:
    return [rule for group in load(RULES)["groups"] for rule in group["rules"]]


def alerts() -> dict[str, dict[str, Any]]:
    return {rule["alert"]: rule for rule in rules() if "alert" in rule}


@cache
def sample_names() -> dict[str, str]:
    """Every sample name that is exported, with the metric that it belongs to."""
    found = {}
    for metric in ALL_METRICS:
        histogram = metric.kind == "histogram"
        for suffix in ("_bucket", "_count", "_sum") if histogram else ("",):
            found[metric.name + suffix] = metric.name
    return found


@cache
def metrics_in(expression: str) -> set[str]:
    """Sample names of ours that an expression reads, recording rules resolved."""
    names = set(_METRIC.findall(expression))
    for rule in rules():
        record = rule.get("record")
        if record and re.search(rf"{re.escape(record)}(?![a-z0-9_:])", expression):
            names |= metrics_in(rule["expr"])
    return names


@cache
def panels() -> dict[tuple[str, int], dict[str, Any]]:
    """Panels with queries of all dashboards, by dashboard and id."""
    found = {}
    for path in sorted((DEPLOY / "grafana" / "dashboards").glob("*.json")):
        for panel in load(path)["panels"]:
            if panel["type"] != "row":
                found[path.stem, panel["id"]] = panel
    return found
