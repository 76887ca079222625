"""Check that exported files contain the snapshots, cell by cell."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from calmstream.broker.in_process import InProcessBroker
from calmstream.cli import main
from calmstream.common.errors import InvalidInput
from calmstream.consumer.publish.build import build_set
from calmstream.consumer.publish.merge import MergedWindow
from calmstream.consumer.subscribe.assembler import Snapshot
from calmstream.estimators.domain import Attribute, Domain
from calmstream.estimators.wire.snapshot import Kind
from calmstream.pages.export import COLUMNS, joined, to_csv, to_jsonl
from calmstream.pages.export_columns import BINARY_FORMATS
from tests.support.publisher import count_of, names_of, published_plan
from tests.support.sink.targets import COLUMNS as ROW_COLUMNS
from tests.support.sink.targets import expected_results, plain

PLAN = published_plan(groups=1)


def snapshot(window: int, cells: list[int]) -> Snapshot:
    built = build_set(PLAN, MergedWindow(window, Kind.FINAL, (1, 1), (count_of(cells),)))
    return Snapshot(built.manifest, {r.attributes: r for r in built.marginals})


SETS = [snapshot(0, [0, 1, 1, 2, 3]), snapshot(1, []), snapshot(2, [3, 3])]


def test_csv_has_one_line_a_cell() -> None:
    out = io.StringIO()
    assert to_csv(SETS, out, None) == 3
    lines = list(csv.DictReader(io.StringIO(out.getvalue())))
    assert tuple(lines[0]) == COLUMNS
    expected = [
        (snapshot.window, "|".join(record.attributes), value, error)
        for snapshot in SETS
        for record in snapshot.marginals.values()
        for value, error in zip(record.table, record.stderr, strict=True)
    ]
    exported = [
        (int(line["window"]), line["marginal"], float(line["proportion"]), float(line["stderr"]))
        for line in lines
    ]
    assert exported == expected
    assert [line["cell"] for line in lines if line["window"] == "2"][2:] == [
        "0|0",
        "0|1",
        "1|0",
        "1|1",
    ]
    assert {line["plan"] for line in lines} == {f"{PLAN.name}-{PLAN.digest[:32]}"}


def test_json_lines_have_one_object_a_snapshot_also_an_empty_one() -> None:
    out = io.StringIO()
    assert to_jsonl(SETS, out, ("a1", "a0")) == 3
    documents = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [document["window"] for document in documents] == [0, 1, 2]
    assert [document["reports"] for document in documents] == [5, 0, 2]
    assert documents[1]["marginals"] == []
    (table,) = documents[0]["marginals"]
    assert table["attributes"] == ["a0", "a1"]
    assert tuple(table["table"]) == SETS[0].record("a0", "a1").table
    assert documents[0]["plan"] == PLAN.digest


READERS: dict[str, Callable[[Path], pa.Table]] = {
    "parquet": pq.read_table,
    "arrow": lambda path: pa.ipc.open_stream(path.read_bytes()).read_all(),
}


@pytest.mark.parametrize("name", sorted(READERS))
@pytest.mark.parametrize("marginal", [None, ("a0",)])
def test_columns_have_one_row_a_cell(
    name: str, marginal: tuple[str, ...] | None, tmp_path: Path
) -> None:
    path = tmp_path / "out"
    with path.open("wb") as out:
        assert BINARY_FORMATS[name](SETS, out, marginal, "elsewhere") == 3
    table = READERS[name](path)
    assert tuple(table.column_names) == ROW_COLUMNS
    names = replace(names_of(PLAN), output_namespace="elsewhere")
    expected = [
        row
        for row in expected_results(PLAN, names, SETS)
        if marginal is None or row[ROW_COLUMNS.index("attributes")] == marginal
    ]
    assert sorted(plain(tuple(row.values())) for row in table.to_pylist()) == expected


def test_nothing_published_is_a_file_without_rows(tmp_path: Path) -> None:
    for name, write in BINARY_FORMATS.items():
        path = tmp_path / name
        with path.open("wb") as out:
            assert write([], out, None, "elsewhere") == 0
        assert READERS[name](path).num_rows == 0


def test_bytes_go_to_a_file_not_to_a_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "plan.json").write_bytes(PLAN.to_bytes())
    monkeypatch.setattr("calmstream.commands.export.kafka", lambda _: InProcessBroker())
    monkeypatch.setattr("calmstream.commands.export.subscribe", lambda *_, **__: iter(SETS))
    words = ["export", "--plan", str(tmp_path / "plan.json"), "--bootstrap", "x:1"]
    words += ["--format", "parquet"]
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert main(words) == 2
    message = "calmstream: --format parquet is not text: state a file with --out FILE\n"
    assert capsys.readouterr().err == message
    assert main([*words, "--out", str(tmp_path / "out")]) == 0
    assert pq.read_table(tmp_path / "out").num_rows == 12
    assert main([*words, "--out", str(tmp_path / "none" / "out")]) == 2


def test_only_the_marginal_asked_for() -> None:
    out = io.StringIO()
    to_csv(SETS, out, ("a0",))
    assert {line["marginal"] for line in csv.DictReader(io.StringIO(out.getvalue()))} == {"a0"}
    with pytest.raises(InvalidInput, match="no marginal of a2"):
        to_csv(SETS, io.StringIO(), ("a2",))


def test_no_two_cells_look_alike_whatever_labels_hold() -> None:
    assert joined(["a", "b"]) == "a|b"
    assert joined(["a|b"]) == r"a\|b"
    odd = [["a|b", "c"], ["a", "b|c"], ["a\\", "b|c"], ["a\\|b", "c"], ["a", "b", "c"], ["a\\|b|c"]]
    assert len({joined(labels) for labels in odd}) == len(odd)
    domain = Domain((Attribute("x|y", ("a|b", "c")), *PLAN.domain.attributes[1:]))
    plan = replace(PLAN, domain=domain)
    built = build_set(plan, MergedWindow(0, Kind.FINAL, (1, 1), (count_of([0, 1, 1, 2, 3]),)))
    out = io.StringIO()
    to_csv([Snapshot(built.manifest, {r.attributes: r for r in built.marginals})], out, None)
    lines = list(csv.DictReader(io.StringIO(out.getvalue())))
    assert {line["marginal"] for line in lines} == {r"x\|y", r"x\|y|a1"}
    assert [line["cell"] for line in lines] == [
        r"a\|b", "c", r"a\|b|0", r"a\|b|1", "c|0", "c|1",
    ]  # fmt: skip


@pytest.mark.parametrize(("sets", "message"), [(SETS[:1], "1 snapshot\n"), (SETS, "3 snapshots\n")])
def test_the_command_prints_how_much_it_exported(
    sets: list[Snapshot],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "plan.json").write_bytes(PLAN.to_bytes())
    monkeypatch.setattr("calmstream.commands.export.kafka", lambda _: InProcessBroker())
    monkeypatch.setattr("calmstream.commands.export.subscribe", lambda *_, **__: iter(sets))
    assert main(["export", "--plan", str(tmp_path / "plan.json"), "--bootstrap", "x:1"]) == 0
    assert capsys.readouterr().err == message
