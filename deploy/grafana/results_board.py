"""The dashboard of results: panels and variables with SQL over what a sink keeps in PostgreSQL."""  # noqa: INP001 - part of a script, not of a package

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

SOURCE = {"type": "grafana-postgresql-datasource", "uid": "calmstream-results"}

# Grafana replaces ${name:sqlstring} by the chosen value as a quoted string.
OF_PLAN = "plan = ${plan:sqlstring} AND output_namespace = ${output_namespace:sqlstring}"
OF_KIND = f"{OF_PLAN} AND kind = ${{kind:sqlstring}}"
OF_TABLE = f"{OF_KIND} AND attributes = ${{attributes:sqlstring}}::text[]"
IN_TIME = "$__timeFilter(window_end)"
NEWEST = f"window_number = (SELECT max(window_number) FROM calmstream.sets WHERE {OF_KIND})"
KINDS = ("current", "final", "total", "early")


@dataclass(frozen=True)
class SqlPanel:
    """One panel.

    ``shape`` is ``time_series`` (columns ``time``, perhaps ``metric``, and numbers) or ``table``.
    ``place`` is x, y, width and height on the grid of 24 columns.
    """

    title: str
    kind: str
    shape: str
    query: str
    description: str
    place: tuple[int, int, int, int]
    unit: str = "percentunit"
    band: bool = False


PANELS = (
    SqlPanel(
        "Newest table",
        "table",
        "table",
        "SELECT array_to_string(labels, ', ') AS cell, value, "
        "greatest(value - 1.96 * stderr, 0) AS low, least(value + 1.96 * stderr, 1) AS high, "
        "array_to_string(flags, ', ') AS flags, "
        f"reports FROM calmstream.results WHERE {OF_TABLE} AND {NEWEST} ORDER BY results.cell",
        "The newest set of the chosen kind, with 95 % intervals. Do not interpret a table with the "
        "flag noise or suspicious.",
        (0, 0, 12, 10),
    ),
    SqlPanel(
        "Table over windows",
        "timeseries",
        "time_series",
        "SELECT window_end AS time, array_to_string(labels, ', ') AS metric, value "
        f"FROM calmstream.results WHERE {OF_TABLE} AND {IN_TIME} ORDER BY 1",
        "Every cell of the table, at the end of each window.",
        (12, 0, 12, 10),
    ),
    SqlPanel(
        "Cell $cell with its 95 % interval",
        "timeseries",
        "time_series",
        "SELECT window_end AS time, max(value) FILTER (WHERE kind = ${kind:sqlstring}) AS value, "
        "greatest(max(value - 1.96 * stderr) FILTER (WHERE kind = ${kind:sqlstring}), 0) AS low, "
        "least(max(value + 1.96 * stderr) FILTER (WHERE kind = ${kind:sqlstring}), 1) AS high, "
        "max(value) FILTER (WHERE kind = 'final') AS final FROM calmstream.results "
        f"WHERE {OF_PLAN} AND attributes = ${{attributes:sqlstring}}::text[] "
        f"AND results.cell = ${{cell:sqlstring}}::integer AND {IN_TIME} GROUP BY 1 ORDER BY 1",
        "The line is the chosen kind, with its interval; the points are the finals. An interval of "
        "a final holds for one window; neighbouring windows differ by noise.",
        (0, 10, 24, 9),
        band=True,
    ),
    SqlPanel(
        "Reports of a window",
        "timeseries",
        "time_series",
        "SELECT window_end AS time, reports AS accepted, rejected FROM calmstream.sets "
        f"WHERE {OF_KIND} AND {IN_TIME} ORDER BY 1",
        "Reports, not people. For totals: of all windows so far.",
        (0, 19, 8, 8),
        unit="short",
    ),
    SqlPanel(
        "Tables by flag",
        "timeseries",
        "time_series",
        "SELECT window_end AS time, flag AS metric, count(*) AS tables FROM calmstream.sets "
        "JOIN calmstream.tables USING (set_id) CROSS JOIN unnest(flags) AS flag "
        f"WHERE {OF_KIND} AND {IN_TIME} GROUP BY 1, 2 ORDER BY 1",
        "How many tables of a window carry each flag.",
        (8, 19, 8, 8),
        unit="short",
    ),
    SqlPanel(
        "Windows without tables",
        "table",
        "table",
        "SELECT window_number AS window, window_end AS end, reports, rejected "
        f"FROM calmstream.sets WHERE {OF_KIND} AND {IN_TIME} AND NOT EXISTS "
        "(SELECT FROM calmstream.tables t WHERE t.set_id = sets.set_id) "
        "ORDER BY 1 DESC LIMIT 100",
        "Windows that received no report.",
        (16, 19, 8, 8),
        unit="short",
    ),
)

VARIABLES = {
    "plan": "SELECT DISTINCT plan_name || ' ' || left(plan, 8) AS __text, plan AS __value "
    "FROM calmstream.sets ORDER BY 1",
    "output_namespace": "SELECT DISTINCT output_namespace FROM calmstream.sets "
    "WHERE plan = ${plan:sqlstring} ORDER BY 1",
    "attributes": "SELECT DISTINCT array_to_string(attributes, ', ') AS __text, "
    "attributes::text AS __value FROM calmstream.sets JOIN calmstream.tables USING (set_id) "
    f"WHERE {OF_PLAN} ORDER BY 1",
    "cell": "SELECT array_to_string(labels, ', ') AS __text, results.cell::text AS __value "
    f"FROM calmstream.results WHERE {OF_TABLE} AND {NEWEST} ORDER BY value DESC LIMIT 100",
}
"""Queries of the variables, in the order in which they depend on each other."""


def dashboard() -> dict[str, Any]:
    """Return the dashboard in the form that Grafana provisions."""
    names = ["plan", "output_namespace", "kind", "attributes", "cell"]
    return {
        "id": None,
        "uid": "calmstream-results",
        "title": "calmstream: results",
        "tags": ["calmstream"],
        "schemaVersion": 39,
        "version": 1,
        "editable": False,
        "graphTooltip": 1,
        "refresh": "1m",
        "time": {"from": "now-7d", "to": "now"},
        "timezone": "utc",
        "templating": {"list": [_kind() if n == "kind" else _variable(n) for n in names]},
        "panels": [_panel(panel, number + 1) for number, panel in enumerate(PANELS)],
    }


def _variable(name: str) -> dict[str, Any]:
    return {
        "name": name,
        "type": "query",
        "datasource": SOURCE,
        "query": VARIABLES[name],
        "definition": VARIABLES[name],
        "refresh": 2,
        "includeAll": False,
        "multi": name == "cell",
    }


def _kind() -> dict[str, Any]:
    return {
        "name": "kind",
        "type": "custom",
        "query": ",".join(KINDS),
        "options": [{"text": kind, "value": kind, "selected": kind == KINDS[0]} for kind in KINDS],
        "current": {"text": KINDS[0], "value": KINDS[0]},
        "includeAll": False,
        "multi": False,
    }


def _panel(panel: SqlPanel, number: int) -> dict[str, Any]:
    x, y, width, height = panel.place
    target = {
        "refId": "A",
        "datasource": SOURCE,
        "format": panel.shape,
        "rawQuery": True,
        "rawSql": panel.query,
    }
    made: dict[str, Any] = {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.description,
        "datasource": SOURCE,
        "gridPos": {"x": x, "y": y, "w": width, "h": height},
        "fieldConfig": {"defaults": _defaults(panel), "overrides": _overrides(panel)},
        "targets": [target],
    }
    if panel.kind == "table":
        return made
    made["options"] = {"legend": {"displayMode": "list"}, "tooltip": {"mode": "multi"}}
    if panel.band:
        made |= {"repeat": "cell", "repeatDirection": "h", "maxPerRow": 3}
    return made


def _defaults(panel: SqlPanel) -> dict[str, Any]:
    # A table has columns of several units, see the overrides.
    return {"unit": "short" if panel.kind == "table" else panel.unit}


def _overrides(panel: SqlPanel) -> list[dict[str, Any]]:
    if panel.kind == "table":
        names = ("value", "low", "high") if panel.unit == "percentunit" else ()
        return [_override(name, unit="percentunit") for name in names]
    if not panel.band:
        return []
    edge = {"custom.lineWidth": 0, "custom.hideFrom": {"legend": True}}
    return [
        _override("low", **edge),
        _override("high", **edge, **{"custom.fillBelowTo": "low", "custom.fillOpacity": 25}),
        _override("final", **{"custom.drawStyle": "points", "custom.pointSize": 4}),
    ]


def _override(field: str, **properties: Any) -> dict[str, Any]:
    return {
        "matcher": {"id": "byName", "options": field},
        "properties": [{"id": name, "value": value} for name, value in properties.items()],
    }
