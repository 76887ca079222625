"""Snapshots, tables, answers and changes as rows, Arrow, pandas, Polars and HTML."""

from __future__ import annotations

import sys
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import polars as pl
import pytest

from calmstream import Answer, Snapshot, changes, subscribe
from calmstream.consumer.read.ranges import Windows
from calmstream.consumer.subscribe.frame import Frame, free_names
from tests.support.publisher import Bench, published_plan, work
from tests.support.serving import asking

ANSWER = Answer(
    attributes=("value", "theme"),
    labels=(("low", "<b>high</b>"), ("dark", "light")),
    table=np.array([[0.5, 0.1], [0.25, 0.15]]),
    stderr=np.full((2, 2), 0.01),
    flags=("covered",),
    reports=1234,
    windows=(Windows(2, 2),),
    revision=(7,),
    plan=published_plan(),
)


@pytest.fixture(scope="module")
def bench() -> Bench:
    bench = Bench(published_plan(windows=3, groups=1))
    bench.close_all(3)
    bench.put_all()
    work(bench.publication())
    return bench


@pytest.fixture(scope="module")
def snapshots(bench: Bench) -> list[Snapshot]:
    namespace = bench.names.namespace
    return list(
        subscribe(bench.plan, bench.broker, kinds=["final"], follow=False, namespace=namespace)
    )


@pytest.fixture(params=["table", "snapshot", "answer", "changes"])
def frame(request: pytest.FixtureRequest, bench: Bench, snapshots: list[Snapshot]) -> Frame:
    if request.param == "table":
        return snapshots[-1].marginal("a0", "a1")
    if request.param == "snapshot":
        return snapshots[-1]
    with asking(bench) as history:
        return history.ask(["a2"]) if request.param == "answer" else changes(history)


def test_all_forms_hold_the_same_rows(frame: Frame) -> None:
    rows = frame.rows()
    assert rows
    assert frame.to_arrow().to_pylist() == rows
    assert frame.to_polars().rows(named=True) == rows
    shown = frame.to_pandas()
    assert list(shown) == list(rows[0])
    values = [np.nan if row["value"] is None else row["value"] for row in rows]
    np.testing.assert_array_equal(shown["value"], values)
    assert isinstance(shown, pd.DataFrame)
    assert isinstance(frame.to_polars(), pl.DataFrame)


def test_an_empty_snapshot_has_typed_columns_and_says_why(snapshots: list[Snapshot]) -> None:
    full = snapshots[0]
    empty = replace(full, marginals={}, manifest=replace(full.manifest, marginals=(), reports=0))
    assert empty.rows() == []
    assert empty.to_arrow().schema == full.to_arrow().schema
    assert len(empty.to_pandas()) == 0
    assert "it received no reports" in empty._repr_html_()


def test_an_attribute_called_like_a_column_loses_nothing() -> None:
    assert ANSWER.rows()[2] == {
        "value_": "<b>high</b>",
        "theme": "dark",
        "value": 0.25,
        "stderr": 0.01,
        "flags": ["covered"],
    }
    assert free_names(["v", "v_", "w"], ["v"]) == ["v__", "v_", "w"]
    # Names of columns that other results have are names like any other.
    named = replace(ANSWER, attributes=("cell", "labels"))
    assert named.to_arrow().to_pylist() == named.rows()


class Cells(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.lines: list[list[str]] = []
        self.caption = ""
        self._in = ""
        self.feed(text)

    def handle_starttag(self, tag: str, _attrs: list[tuple[str, str | None]]) -> None:
        self._in = tag
        if tag == "tr":
            self.lines.append([])

    def handle_data(self, data: str) -> None:
        if self._in in ("td", "th"):
            self.lines[-1].append(data)
        elif self._in == "span":
            self.caption += data


def test_html_shows_percent_and_intervals_and_executes_no_label() -> None:
    text = ANSWER._repr_html_()
    assert "<b>" not in text
    assert Cells(text).caption == "window 2 · 1,234 reports · covered"
    assert Cells(text).lines[0] == ["value_", "theme", "%", "± 95 %"]
    assert Cells(text).lines[3] == ["<b>high</b>", "dark", "25.00", "1.96"]


def test_html_of_a_difference_has_points_with_signs() -> None:
    windows = (Windows(2, 2), Windows(0, 1))
    change = replace(ANSWER, flags=("difference",), windows=windows, table=-ANSWER.table)
    shown = Cells(change._repr_html_())
    assert shown.caption.startswith("window 2 minus windows 0 to 1")
    assert shown.lines[0][2] == "points"
    assert shown.lines[1][2] == "-50.00"


def test_changes_begin_with_the_most_evident_table(bench: Bench) -> None:
    with asking(bench) as history:
        found = changes(history)
    tested = [row["p_adjusted"] for row in found.rows() if row["p_adjusted"] is not None]
    assert tested == sorted(tested)
    untested = replace(
        found,
        comparison=replace(
            found.comparison,
            tables=tuple(
                replace(t, p=None, adjusted=None, difference=None, reason="too few reports")
                for t in found.comparison.tables
            ),
        ),
    )
    rows = untested.rows()
    assert len(rows) == len(bench.plan.marginals)
    assert (rows[0]["value"], rows[0]["reason"]) == (None, "too few reports")
    assert untested.to_arrow().to_pylist() == rows
    assert "–" in untested._repr_html_()


@pytest.mark.parametrize("name", ["pyarrow", "pandas", "polars"])
def test_a_missing_package_is_named(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ModuleNotFoundError, match=f"needs the package {name}: pip install {name}"):
        getattr(ANSWER, {"pyarrow": "to_arrow"}.get(name, f"to_{name}"))()
    assert len(ANSWER.rows()) == 4
