from __future__ import annotations

import csv
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from calmstream.consumer.read.formats import joined
from calmstream.consumer.subscribe import subscribe
from calmstream.consumer.subscribe.assembler import Snapshot
from calmstream.estimators.wire.snapshot import Kind
from tests.support.faulty_broker import FaultyBroker
from tests.support.publisher import count_of, names_of, published_plan, snapshot_of
from tests.support.sink.targets import COLUMNS, expected_results, plain
from tests.unit.calmstream.conftest import Command, Over

PLAN = published_plan(groups=1)


def snapshot(window: int, cells: list[int]) -> Snapshot:
    return snapshot_of(PLAN, window, Kind.FINAL, (1, 1), count_of(cells))


Export = Callable[..., Path]
SETS = [snapshot(0, [0, 1, 1, 2, 3]), snapshot(1, []), snapshot(2, [3, 3])]


@pytest.fixture
def export(over: Over, command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Export:
    where = (*over(PLAN, FaultyBroker()), "--output-namespace", "elsewhere")

    def run(sets: list[Snapshot], name: str, *words: str) -> Path:
        monkeypatch.setattr(subscribe, "subscribe", lambda *_, **__: iter(sets))
        assert command("export", *where, "--out", tmp_path / name, *words).code == 0
        return tmp_path / name

    return run


READERS: dict[str, Callable[[Path], list[dict[str, Any]]]] = {
    "parquet": lambda path: pq.read_table(path).to_pylist(),
    "arrow": lambda path: pa.ipc.open_stream(path.read_bytes()).read_all().to_pylist(),
}


@pytest.mark.parametrize("form", sorted(READERS))
@pytest.mark.parametrize("marginal", [None, "a0"])
def test_the_name_of_the_file_says_its_format_and_it_has_a_row_a_cell(
    form: str, marginal: str | None, export: Export
) -> None:
    path = export(SETS, f"out.{form}", *(["--marginal", marginal] if marginal else []))
    rows = READERS[form](path)
    assert tuple(rows[0]) == COLUMNS
    names = replace(names_of(PLAN), output_namespace="elsewhere")
    expected = [
        row
        for row in expected_results(PLAN, names, SETS)
        if marginal is None or row[COLUMNS.index("attributes")] == (marginal,)
    ]
    assert sorted(plain(tuple(row.values())) for row in rows) == expected
    assert READERS[form](export([], f"empty.{form}")) == []


def test_csv_has_the_same_rows_with_lists_joined(export: Export) -> None:
    path = export(SETS, "out.csv")
    lines = list(csv.DictReader(path.read_text().splitlines()))
    assert tuple(lines[0]) == COLUMNS
    expected = [
        (snapshot.window, "|".join(record.attributes), value, error)
        for snapshot in SETS
        for record in snapshot.marginals.values()
        for value, error in zip(record.table, record.stderr, strict=True)
    ]
    found = [
        (int(of["window_number"]), of["attributes"], float(of["value"]), float(of["stderr"]))
        for of in lines
    ]
    assert found == expected
    last = [line["labels"] for line in lines if line["window_number"] == "2"][2:]
    assert last == ["0|0", "0|1", "1|0", "1|1"]
    assert {line["plan"] for line in lines} == {PLAN.digest}


def test_json_lines_have_one_object_a_snapshot_also_an_empty_one(export: Export) -> None:
    path = export(SETS, "out.jsonl", "--marginal", "a1,a0")
    documents = [json.loads(line) for line in path.read_text().splitlines()]
    assert [document["window"] for document in documents] == [0, 1, 2]
    assert [document["reports"] for document in documents] == [5, 0, 2]
    assert documents[1]["marginals"] == []
    (table,) = documents[0]["marginals"]
    assert table["attributes"] == ["a0", "a1"]
    assert tuple(table["table"]) == SETS[0].record("a0", "a1").table
    assert documents[0]["plan"] == PLAN.digest


def test_no_two_cells_look_alike_whatever_labels_hold() -> None:
    assert joined(["a", "b"]) == "a|b"
    assert joined(["a|b"]) == r"a\|b"
    odd = [["a|b", "c"], ["a", "b|c"], ["a\\", "b|c"], ["a\\|b", "c"], ["a", "b", "c"], ["a\\|b|c"]]
    assert len({joined(labels) for labels in odd}) == len(odd)
