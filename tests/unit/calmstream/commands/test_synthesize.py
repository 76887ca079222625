from __future__ import annotations

import csv
from collections import Counter
from itertools import product
from pathlib import Path
from typing import Any

import orjson
import pyarrow.parquet as pq
import pytest

from calmstream.consumer.read.history import History
from calmstream.estimators.analysis.synthetic import tree_of
from tests.support.publisher import Bench
from tests.support.serving import filled
from tests.unit.calmstream.conftest import Command, Done, Over

N = 100_000


@pytest.fixture(scope="module")
def bench() -> Bench:
    return filled()


@pytest.fixture
def synthesize(bench: Bench, tmp_path: Path, over: Over, command: Command) -> Any:
    where = over(bench.plan, bench.broker)

    def run(name: str, *words: str) -> tuple[Path, Done]:
        path = tmp_path / name
        return path, command("synthesize", *where, "--records", N, "--out", path, *words)

    return run


def rows_of(path: Path) -> list[dict[str, str]]:
    if path.suffix == ".csv":
        with path.open(encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file))
    rows: list[dict[str, str]] = pq.read_table(path).to_pylist()
    return rows


@pytest.mark.parametrize("windows", ["total", "1"])
def test_the_pairs_of_the_tree_have_the_answers_to_questions(
    synthesize: Any, bench: Bench, windows: str
) -> None:
    path, (_, _, said) = synthesize("made.csv", "--windows", windows)
    rows = rows_of(path)
    assert len(rows) == N
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
    tree = tree_of(history.counted(windows).model, bench.plan.domain)
    found = Counter(tuple(row[name] for name in bench.plan.domain.names[:3]) for row in rows)
    labels = [attribute.labels for attribute in bench.plan.domain.attributes[:3]]
    for cell, share in zip(product(*labels), tree.table((0, 1, 2)).ravel(), strict=True):
        assert found[cell] / N == pytest.approx(share, abs=5.0 * (share * (1.0 - share) / N) ** 0.5)


def test_parquet_has_the_records_of_csv_and_says_what_they_are(synthesize: Any) -> None:
    path, _ = synthesize("made.parquet")
    assert rows_of(path) == rows_of(synthesize("made.csv")[0])
    assert b"Made-up records" in pq.read_schema(path).metadata[b"calmstream.synthetic"]


def test_the_model_of_a_method_without_one_is_refused(synthesize: Any) -> None:
    _, done = synthesize("made.csv", "--method", "model")
    assert done.code == 2
    assert "only noise-aware has a model to draw from: use the tree" in done.err


def test_evaluate_measures_made_up_records(tmp_path: Path, command: Command) -> None:
    """Check made-up records of three bits with a common cause: a tree loses one of their pairs."""
    share = {
        (a, b, c): sum(0.9**k * 0.1 ** (3 - k) for k in (a + b + c, 3 - a - b - c)) / 2
        for a, b, c in product((0, 1), repeat=3)
    }
    lines = [f"{a},{b},{c}" for (a, b, c), s in share.items() for _ in range(round(2000 * s))]
    (tmp_path / "table.csv").write_text("\n".join(["a,b,c", *lines]))
    argv = ["evaluate", str(tmp_path / "table.csv"), "--method", "noise-aware,uniform"]
    argv += ["--epsilon", "8", "--k", "3", "--users", "200000", "--repeats", "1", "--json"]
    rows = map(orjson.loads, command(*argv, "--synthetic").out.splitlines())
    found = {(row["method"], row["source"]): row["errors"] for row in rows}
    assert list(found[("uniform", "tree")]) == ["1", "2", "3"]
    assert ("uniform", "model") not in found
    answers, tree, model = (found["noise-aware", s] for s in ("answers", "tree", "model"))
    assert all(row["1"] < 1e-4 for row in (answers, tree, model))
    # Of one pair the correlation is .41 instead of .64.
    assert tree["2"] == pytest.approx(4 * ((0.64 - 0.41) / 4) ** 2 / 3, rel=0.2)
    assert model["2"] < tree["2"] / 10
    assert model["3"] < tree["3"] / 10
