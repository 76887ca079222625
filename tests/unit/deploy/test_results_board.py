"""Run the SQL of the dashboard of results against a real PostgreSQL that a sink has filled."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from calmstream.consumer.subscribe.assembler import Snapshot
from calmstream.estimators.domain import Attribute, Domain
from calmstream.estimators.wire.snapshot import Kind
from tests.support.deploy import DEPLOY, load
from tests.support.publisher import START, count_of, published_plan, snapshot_of
from tests.support.sink.postgres import PostgresServer
from tests.support.sink.targets import postgres_place

BOARD = load(DEPLOY / "grafana" / "dashboards" / "results.json")
PANELS = {panel["title"]: panel for panel in BOARD["panels"]}
ODD = Attribute('the "user\'s" region\\', ("it's", 'a "b"\\'))
PLAN = replace(
    published_plan(groups=1, windows=9),
    domain=Domain((ODD, *published_plan().domain.attributes[1:])),
)
Row = dict[str, Any]


def snapshot(window: int, kind: Kind, reports: int) -> Snapshot:
    cells = [window % 4, *[0] * (reports - 1)] if reports else []
    return snapshot_of(PLAN, window, kind, (window + 1, 1), count_of(cells, rejects=2))


FINALS = [
    snapshot(window, Kind.FINAL, reports) for window, reports in enumerate((4000, 0, 5000, 0))
]
TOTAL = snapshot(2, Kind.TOTAL, 9000)
CURRENT = snapshot(2, Kind.CURRENT, 7000)


class Grafana:
    """Asks as Grafana does: fills in variables and macros, then sends the query."""

    def __init__(self, postgres_server: PostgresServer) -> None:
        where = postgres_place(postgres_server, postgres_server.database())
        target = where.target()
        target.open()
        sets = [*FINALS, TOTAL, CURRENT]
        target.store("calmstream", sets)
        replayed = FINALS[0]
        target.store("again", [replayed])
        target.close()
        self._connection = postgres_server.connect(where.address.rsplit("/", 1)[1])
        self.chosen = {"kind": "final"}
        self.span = (START, START + 90)

    def close(self) -> None:
        self._connection.close()

    def ask(self, query: str) -> list[Row]:
        first, last = (f"'epoch'::timestamptz + interval '{at} seconds'" for at in self.span)
        query = re.sub(
            r"\$__timeFilter\((\w+)\)", lambda m: f"{m[1]} BETWEEN {first} AND {last}", query
        )
        quoted = {name: "'" + value.replace("'", "''") + "'" for name, value in self.chosen.items()}
        query = re.sub(r"\$\{(\w+):sqlstring\}", lambda m: quoted[m[1]], query)
        assert "$" not in query
        cursor = self._connection.execute(query.encode())
        assert cursor.description is not None
        names = [column.name for column in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

    def choose(self, name: str, position: int = 0) -> list[Row]:
        """Ask for the values of a variable, choose one, and return all."""
        (query,) = [v["query"] for v in BOARD["templating"]["list"] if v["name"] == name]
        rows = self.ask(query)
        self.chosen[name] = list(rows[position].values())[-1]
        return rows

    def show(self, title: str) -> list[Row]:
        (target,) = PANELS[title]["targets"]
        rows = self.ask(target["rawSql"])
        if target["format"] == "time_series" and rows:
            assert "time" in rows[0]
        return rows


@pytest.fixture
def grafana(postgres_server: PostgresServer) -> Iterator[Grafana]:
    made = Grafana(postgres_server)
    yield made
    made.close()


def choose_all(grafana: Grafana) -> None:
    assert grafana.choose("plan") == [
        {"__text": f"{PLAN.name} {PLAN.digest[:8]}", "__value": PLAN.digest}
    ]
    assert [list(row.values()) for row in grafana.choose("output_namespace", 1)] == [
        ["again"],
        ["calmstream"],
    ]
    texts = [row["__text"] for row in grafana.choose("attributes", 1)]
    assert texts == [ODD.name, f"{ODD.name}, a1"]


def test_tables_and_cells(grafana: Grafana) -> None:
    choose_all(grafana)
    # The newest final has no tables: the panels say so by being empty.
    assert grafana.show("Newest table") == []
    grafana.chosen["kind"] = "total"
    table = TOTAL.record(ODD.name, "a1")
    newest = grafana.show("Newest table")
    assert [row["value"] for row in newest] == list(table.table)
    assert newest[0]["cell"] == f"{ODD.labels[0]}, 0"
    assert all(0 <= row["low"] <= row["value"] <= row["high"] <= 1 for row in newest)
    cells = grafana.choose("cell", 1)
    assert [int(row["__value"]) for row in cells] == sorted(range(4), key=lambda i: -table.table[i])
    cell = int(grafana.chosen["cell"])
    for kind, one in (("total", TOTAL), ("current", CURRENT)):
        grafana.chosen["kind"] = kind
        *_, row = grafana.show("Cell $cell with its 95 % interval")
        assert row["value"] == one.record(ODD.name, "a1").table[cell]
        assert row["final"] == FINALS[2].record(ODD.name, "a1").table[cell]
        assert row["low"] <= row["value"] <= row["high"]
        assert row["time"].timestamp() == START + 30


def test_series_over_windows(grafana: Grafana) -> None:
    choose_all(grafana)
    rows = grafana.show("Table over windows")
    tables = [one.record(ODD.name, "a1").table for one in FINALS if one.marginals]
    assert sorted(row["value"] for row in rows) == sorted(x for table in tables for x in table)
    assert {row["time"].timestamp() for row in rows} == {START + 10, START + 30}
    assert len({row["metric"] for row in rows}) == 4
    grafana.span = (START, START + 15)
    assert {row["time"].timestamp() for row in grafana.show("Table over windows")} == {START + 10}


def test_reports_flags_and_windows_without_tables(grafana: Grafana) -> None:
    choose_all(grafana)
    reports = grafana.show("Reports of a window")
    assert [(r["accepted"], r["rejected"]) for r in reports] == [
        (4000, 2),
        (0, 2),
        (5000, 2),
        (0, 2),
    ]
    flags = grafana.show("Tables by flag")
    covered = [(r["time"].timestamp(), r["tables"]) for r in flags if r["metric"] == "covered"]
    assert covered == [(START + 10, 2), (START + 30, 2)]
    assert {r["window"] for r in grafana.show("Windows without tables")} == {1, 3}
