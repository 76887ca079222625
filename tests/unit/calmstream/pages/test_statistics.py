"""Check the statistics of published tables on the terminal and in exported files."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console

from calmstream.cli import main
from calmstream.consumer.publish.build import build_set
from calmstream.consumer.publish.merge import MergedWindow
from calmstream.consumer.sink.arrow_rows import STATISTICS
from calmstream.consumer.subscribe.assembler import Snapshot
from calmstream.consumer.subscribe.statistic_rows import statistic_rows
from calmstream.estimators.domain import Domain
from calmstream.estimators.plan import Plan
from calmstream.estimators.wire.snapshot import Kind
from calmstream.estimators.wire.table_summary import Statistic, TableStatistics, TableSummary
from calmstream.pages.export import (
    STATISTICS_COLUMNS,
    statistics_to_csv,
    statistics_to_jsonl,
    to_jsonl,
)
from calmstream.pages.export_columns import BINARY_STATISTICS
from calmstream.pages.statistics import statistics_lines
from calmstream.pages.watch import plain, render
from tests.support.publisher import count_of, published_plan

DOMAIN = Domain.from_dictionary(
    [
        {"name": "ms", "kind": "number", "unit": "ms", "edges": [0, 10, 30]},
        {"name": "region", "labels": ["EU", "U|S"]},
        {"name": "size", "kind": "ordered", "labels": ["s", "l"]},
    ]
)
CELLS = [0] * 300 + [1] * 210 + [2] * 250 + [3] * 240


def plan(*summaries: str) -> Plan:
    marginals = ((0,), (0, 1), (0, 2))
    made = replace(published_plan(groups=3), domain=DOMAIN, summaries=summaries)
    return replace(made, marginals=marginals)


def snapshot(*summaries: str) -> Snapshot:
    counts = (count_of(CELLS),) * 3
    built = build_set(plan(*summaries), MergedWindow(1, Kind.FINAL, (1,) * 6, counts))
    return Snapshot(built.manifest, {r.attributes: r for r in built.marginals})


SNAPSHOT = snapshot("mean", "median", "rank")


def test_a_table_begins_with_its_statistics() -> None:
    lines = plain(SNAPSHOT, ["ms"]).splitlines()
    (mean,) = SNAPSHOT.record("ms").summaries
    value = mean.rows[0].statistics[0].value
    assert lines[2].startswith(f"ms: mean {value:.4g} ms (")
    assert ", median " in lines[2]
    assert lines[3].startswith("binned: ")
    given = plain(SNAPSHOT, ["ms", "region"]).splitlines()
    assert given[2].startswith("ms given region EU: mean ")
    assert given[3].startswith("ms given region U|S: mean ")
    assert "ms and size: rank " in plain(SNAPSHOT, ["ms", "size"])


def test_a_terminal_shows_the_same_lines() -> None:
    console = Console(width=80, file=io.StringIO(), color_system=None)
    with console.capture() as text:
        console.print(render(SNAPSHOT, ["ms", "region"]))
    shown = " ".join(text.get().split())
    for line in statistics_lines(SNAPSHOT.record("ms", "region")):
        assert line in shown


def test_a_plan_without_summaries_is_shown_as_before() -> None:
    without = snapshot()
    assert statistics_lines(without.record("ms")) == []
    assert "summaries" not in json.loads(_text(to_jsonl, without))["marginals"][0]


def test_shares_unknown_numbers_and_many_labels_are_shown() -> None:
    rows = tuple(
        TableStatistics((str(i),), (Statistic("share:yes", 0.25, 0.01, 0.23, 0.27),))
        for i in range(20)
    )
    unknown = TableStatistics((), (Statistic("mean", None, None, None, None),))
    record = replace(
        SNAPSHOT.record("ms"),
        summaries=(
            TableSummary(("apps=mail",), "", ("region",), (), rows),
            TableSummary(("ms",), "ms", (), (), (unknown,)),
        ),
    )
    lines = statistics_lines(record)
    assert lines[0] == "apps=mail given region 0: share 25 % (23 to 27 %)"
    assert lines[12:] == ["the first 12 of 20 labels", "ms: mean unknown"]


def _text(write: object, *snapshots: Snapshot) -> str:
    out = io.StringIO()
    assert write(snapshots, out, None) == len(snapshots)  # type: ignore[operator]
    return out.getvalue()


def test_every_format_has_every_statistic() -> None:
    rows = list(statistic_rows(SNAPSHOT.marginals.values()))
    assert [row.statistic for row in rows] == ["mean", "median"] * 3 + ["rank"]
    lines = list(csv.DictReader(io.StringIO(_text(statistics_to_csv, SNAPSHOT))))
    assert tuple(lines[0]) == STATISTICS_COLUMNS
    assert [float(line["value"]) for line in lines] == [row.value for row in rows]
    assert lines[4]["labels"] == r"U\|S"
    objects = [json.loads(line) for line in _text(statistics_to_jsonl, SNAPSHOT).splitlines()]
    assert [one["high"] for one in objects] == [row.high for row in rows]
    assert objects[4] | {"window": 1, "given": ["region"], "labels": ["U|S"]} == objects[4]
    for name, read in (("parquet", pq.read_table), ("arrow", _stream)):
        out = io.BytesIO()
        assert BINARY_STATISTICS[name]([SNAPSHOT], out, None, "test") == 1
        table = read(io.BytesIO(out.getvalue()))
        assert table.schema.equals(STATISTICS)
        assert table.column("low").to_pylist() == [row.low for row in rows]
        assert table.column("window_number").to_pylist() == [1] * len(rows)
    whole = json.loads(_text(to_jsonl, SNAPSHOT))
    assert whole["marginals"][0]["summaries"][0]["unit"] == "ms"


def _stream(raw: io.BytesIO) -> pa.Table:
    return pa.ipc.open_stream(raw).read_all()


def test_unknown_numbers_are_empty() -> None:
    one = TableSummary(
        ("ms",), "", (), (), (TableStatistics((), (Statistic("mean", None, None, None, None),)),)
    )
    record = replace(SNAPSHOT.record("ms"), summaries=(one,))
    odd = Snapshot(SNAPSHOT.manifest, {("ms",): record})
    (line,) = csv.DictReader(io.StringIO(_text(statistics_to_csv, odd)))
    assert (line["value"], line["high"]) == ("", "")
    out = io.BytesIO()
    BINARY_STATISTICS["parquet"]([odd], out, None, "test")
    assert pq.read_table(io.BytesIO(out.getvalue())).column("value").to_pylist() == [None]


def test_statistics_of_a_plan_without_any_are_refused(
    tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path_factory.mktemp("plan") / "plan.json"
    path.write_bytes(plan().to_bytes())
    assert main(["export", "--plan", str(path), "--bootstrap", "x:1", "--summaries"]) == 2
    assert "this plan publishes none" in capsys.readouterr().err
