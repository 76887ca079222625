"""Check that the questions in SQL of the page on sinks run, and give what a set has."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import duckdb
import pytest

from calmstream.consumer.subscribe.assembler import Snapshot
from calmstream.estimators.domain import Attribute, Domain
from calmstream.estimators.wire.snapshot import Kind
from tests.support.docs import ROOT, blocks
from tests.support.publisher import count_of, published_plan, snapshot_of
from tests.support.sink.targets import KINDS, Place

PAGE = ROOT / "docs" / "taking-results-home.md"
ATTRIBUTES = (
    Attribute("region", ("EU", "US")),
    Attribute("theme", ("dark", "light")),
    Attribute("age", ("17-50", "51+")),
)
PLAN = published_plan(groups=1, name="settings", domain=Domain(ATTRIBUTES))


def snapshot(window: int, cells: list[int]) -> Snapshot:
    return snapshot_of(PLAN, window, Kind.FINAL, (window + 1, window + 1), count_of(cells))


SETS = [snapshot(0, [0] * 9000 + [1] * 1000), snapshot(1, [3] * 9000 + [1] * 1000), snapshot(2, [])]


def test_the_questions_have_answers(
    where: Place, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = where.target()
    target.open()
    target.store("calmstream", SETS)
    target.close()

    (views,) = re.findall(r"CREATE VIEW results.*?= 'calmstream.set';", PAGE.read_text(), re.DOTALL)
    monkeypatch.chdir(tmp_path)

    def ask(query: str) -> list[tuple[Any, ...]]:
        if where.kind == "postgresql":
            server = request.getfixturevalue("postgres_server")
            with server.connect(where.address.rsplit("/", 1)[1]) as connection:
                return connection.execute(query).fetchall()
        with duckdb.connect() as connection:
            connection.execute(views)
            rows = connection.sql(query.replace("calmstream.", "").rstrip(";\n")).to_arrow_table()
            return [tuple(row.values()) for row in rows.to_pylist()]

    over_time, newest, changes, windows = map(ask, blocks(PAGE, "test", "sql"))
    tables = [one.record("region", "theme") for one in SETS[:2]]
    assert [row[2] for row in over_time] == [x for table in tables for x in table.table]
    assert over_time[0][1] == ["EU", "dark"]
    assert over_time[0][3] == tables[0].table[0] - 1.96 * tables[0].stderr[0]
    assert newest == [], "the newest window received no reports"
    moved = {tuple(row[1]) for row in changes}
    assert moved >= {("EU", "dark"), ("US", "light")}
    assert all(abs(row[2]) > 4 * row[3] for row in changes)
    assert [(row[0], row[2], row[4]) for row in windows] == [
        (0, 10000, False),
        (1, 10000, False),
        (2, 0, False),
    ]


def test_every_kind_of_target_is_on_the_page() -> None:
    assert all(f"`{kind}:" in PAGE.read_text() for kind in KINDS)
