"""Write the dashboards from the lists of panels: ``python deploy/grafana/build.py``.

Ids and positions follow from the order of the panels, so they are unique and stable.
"""  # noqa: INP001 - a script, not a package

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import results_board
from panels import Panel, Row
from service import SERVICE
from statistics_boards import ACCURACY, CENTRAL, QUALITY

SOURCE = {"type": "prometheus", "uid": "calmstream-prometheus"}
PER_ROW, WIDTH, HEIGHT = 3, 8, 7
PLANS_OF = {"central": "central_budget_spent_ratio"}
"""The metric whose labels list a dashboard's plans, where it is not the usual one."""

DASHBOARDS = {
    "service": ("calmstream: service", SERVICE),
    "data-quality": ("calmstream: data quality", QUALITY),
    "privacy-accuracy": ("calmstream: privacy and accuracy", ACCURACY),
    "central": ("calmstream: central model", CENTRAL),
}

RESULTS = "results"
"""The dashboard over PostgreSQL; all others are over Prometheus."""


def dashboard(name: str) -> dict[str, Any]:
    """Return a dashboard in the form that Grafana provisions."""
    title, rows = DASHBOARDS[name]
    return {
        "id": None,
        "uid": f"calmstream-{name}",
        "title": title,
        "tags": ["calmstream"],
        "schemaVersion": 39,
        "version": 1,
        "editable": False,
        "graphTooltip": 1,
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "timezone": "utc",
        "templating": {"list": [_plan_variable(PLANS_OF.get(name, "plan_window_seconds"))]},
        "panels": _layout(rows),
    }


def _plan_variable(metric: str) -> dict[str, Any]:
    query = f"label_values(calmstream_{metric}, plan)"
    return {
        "name": "plan",
        "type": "query",
        "datasource": SOURCE,
        "query": {"query": query, "refId": "plan"},
        "definition": query,
        "refresh": 2,
        "includeAll": True,
        "allValue": ".*",
        "multi": True,
        "current": {"text": "All", "value": "$__all"},
    }


def _layout(rows: tuple[Row, ...]) -> list[dict[str, Any]]:
    panels: list[dict[str, Any]] = []
    y = 0
    for row in rows:
        place = {"x": 0, "y": y, "w": PER_ROW * WIDTH, "h": 1}
        head = {"id": len(panels) + 1, "type": "row", "title": row.title, "gridPos": place}
        panels.append(head | {"collapsed": False, "panels": []})
        y += 1
        for number, panel in enumerate(row.panels):
            x, line = number % PER_ROW, number // PER_ROW
            place = {"x": x * WIDTH, "y": y + line * HEIGHT, "w": WIDTH, "h": HEIGHT}
            panels.append(_panel(panel, len(panels) + 1, place))
        y += -(-len(row.panels) // PER_ROW) * HEIGHT
    return panels


def _panel(panel: Panel, number: int, place: dict[str, int]) -> dict[str, Any]:
    targets = [
        {
            "refId": chr(ord("A") + i),
            "datasource": SOURCE,
            "expr": expr,
            "legendFormat": _named(expr, legend),
        }
        for i, (expr, legend) in enumerate(panel.queries)
    ]
    made: dict[str, Any] = {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.description,
        "datasource": SOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": {"unit": panel.unit}, "overrides": []},
        "targets": targets,
    }
    if panel.kind == "stat":
        return made | {"options": {"reduceOptions": {"calcs": ["lastNotNull"]}}}
    return made | {"options": {"legend": {"displayMode": "list"}, "tooltip": {"mode": "multi"}}}


def _named(expr: str, legend: str) -> str:
    """Return a legend that distinguishes the series of several plans."""
    by_plan = "by (plan" in expr or expr.startswith("calmstream:")
    return f"{legend}, {{{{plan}}}}" if by_plan and "{{plan}}" not in legend else legend


def text(name: str) -> str:
    """Return the content of a dashboard's file."""
    made = results_board.dashboard() if name == RESULTS else dashboard(name)
    return json.dumps(made, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    for name in (*DASHBOARDS, RESULTS):
        (Path(__file__).parent / "dashboards" / f"{name}.json").write_text(text(name))
