from __future__ import annotations

import csv
import io
import json
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq

from calmstream.commands.export import write_rows, write_snapshots
from calmstream.consumer.subscribe.arrow_rows import STATISTICS
from calmstream.consumer.subscribe.assembler import Snapshot
from calmstream.consumer.subscribe.columns import statistic_rows
from calmstream.estimators.domain import Domain
from calmstream.estimators.plan import Plan
from calmstream.estimators.wire.snapshot import Kind
from calmstream.pages.watch import render, statistics_lines
from tests.support.publisher import count_of, published_plan, snapshot_of
from tests.unit.calmstream.conftest import printed

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
    made = published_plan(groups=3, domain=DOMAIN, summaries=summaries)
    return replace(made, marginals=marginals)


def snapshot(*summaries: str) -> Snapshot:
    return snapshot_of(plan(*summaries), 1, Kind.FINAL, (1,) * 6, *[count_of(CELLS)] * 3)


SNAPSHOT = snapshot("mean", "median", "rank")


def test_a_table_begins_with_its_statistics() -> None:
    shown = " ".join(printed(render(SNAPSHOT, ["ms", "region"])).split())
    lines = statistics_lines(SNAPSHOT.record("ms", "region"))
    for line in lines:
        assert line in shown
    assert lines[0].startswith("ms given region EU: mean ")
    assert lines[1].startswith("ms given region U|S: mean ")
    (mean,) = SNAPSHOT.record("ms").summaries
    value = mean.rows[0].statistics[0].value
    first, second, *_ = statistics_lines(SNAPSHOT.record("ms"))
    assert first.startswith(f"ms: mean {value:.4g} ms (")
    assert ", median " in first
    assert second.startswith("binned: ")
    assert statistics_lines(SNAPSHOT.record("ms", "size"))[0].startswith("ms and size: rank ")


def exported(snapshot: Snapshot, form: str) -> io.BytesIO:
    out = io.BytesIO()
    write_rows("test", [snapshot], out, form, statistics=True)
    return io.BytesIO(out.getvalue())


def test_every_format_has_every_statistic() -> None:
    rows = list(statistic_rows(SNAPSHOT.marginals.values()))
    assert [row["statistic"] for row in rows] == ["mean", "median"] * 3 + ["rank"]
    lines = list(csv.DictReader(exported(SNAPSHOT, "csv").read().decode().splitlines()))
    assert list(lines[0]) == STATISTICS.names
    assert [float(line["value"]) for line in lines] == [row["value"] for row in rows]
    assert lines[4]["labels"] == r"U\|S"
    objects = [json.loads(line) for line in exported(SNAPSHOT, "json")]
    assert [one["high"] for one in objects] == [row["high"] for row in rows]
    assert objects[4] | {"window_number": 1, "given": ["region"], "labels": ["U|S"]} == objects[4]
    for table in (
        pq.read_table(exported(SNAPSHOT, "parquet")),
        pa.ipc.open_stream(exported(SNAPSHOT, "arrow")).read_all(),
    ):
        assert table.schema.equals(STATISTICS)
        assert table.column("low").to_pylist() == [row["low"] for row in rows]
    write_snapshots([SNAPSHOT], out := io.BytesIO())
    assert json.loads(out.getvalue())["marginals"][0]["summaries"][0]["unit"] == "ms"
