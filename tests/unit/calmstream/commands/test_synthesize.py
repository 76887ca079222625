"""``calmstream synthesize``: its records have the tables that questions are answered with."""

from __future__ import annotations

import csv
from collections import Counter
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from calmstream.cli import main
from calmstream.consumer.read.history import History
from tests.support.publisher import Bench
from tests.support.serving import filled

N = 100_000


@pytest.fixture(scope="module")
def bench() -> Bench:
    return filled()


@pytest.fixture
def synthesize(bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run the command over the bench's broker; return the file."""
    monkeypatch.setattr("calmstream.commands.synthesize.kafka", lambda _: bench.broker)
    monkeypatch.setattr(bench.broker, "close", lambda: None, raising=False)
    (tmp_path / "plan.json").write_bytes(bench.plan.to_bytes())

    def run(name: str, *words: str) -> Path:
        start = ["synthesize", "--plan", str(tmp_path / "plan.json"), "--bootstrap", "x:1"]
        start += ["--namespace", bench.names.namespace, "--records", str(N)]
        assert main([*start, "--out", str(tmp_path / name), *words]) == 0
        return tmp_path / name

    return run


def rows_of(path: Path) -> list[dict[str, str]]:
    if path.suffix == ".csv":
        with path.open(encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file))
    rows: list[dict[str, str]] = pq.read_table(path).to_pylist()
    return rows


@pytest.mark.parametrize("windows", ["total", "1"])
def test_the_pairs_of_the_tree_have_the_answers_to_questions(
    synthesize: Any, bench: Bench, windows: str, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = rows_of(synthesize("made.csv", "--windows", windows))
    assert len(rows) == N
    said = capsys.readouterr().err
    line = next(text for text in said.splitlines() if text.startswith("tree: "))
    edges = [tuple(edge.split(" - ")) for edge in line.removeprefix("tree: ").split(", ")]
    assert len(edges) == len(bench.plan.domain) - 1
    history = History(bench.plan, bench.broker, namespace=bench.names.namespace)
    for attributes in [*edges, *((name,) for name in bench.plan.domain.names)]:
        answer = history.ask(attributes, windows)
        found = Counter(tuple(row[name] for name in attributes) for row in rows)
        for cell, share in zip(product(*answer.labels), answer.table.ravel(), strict=True):
            # Edges of inconsistent tables share the attributes between them: half a percent.
            limit = 5.0 * (share * (1.0 - share) / N) ** 0.5 + 0.005
            assert found[cell] / N == pytest.approx(share, abs=limit)
    assert "take numbers and errors from calmstream query" in said


def test_parquet_has_the_records_of_csv_and_says_what_they_are(synthesize: Any) -> None:
    path = synthesize("made.parquet")
    assert rows_of(path) == rows_of(synthesize("made.csv"))
    assert b"Made-up records" in pq.read_schema(path).metadata[b"calmstream.synthetic"]
