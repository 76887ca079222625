"""Check the grid: which methods are measured or left out, and which cells are above a bound."""

from __future__ import annotations

from argparse import Namespace
from itertools import combinations
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import benchmarks.grid.__main__ as grid
from benchmarks.grid.cells import MAX_CELLS, OURS, Cell, measure, targets_of
from benchmarks.grid.table import breaks, geometric, ratio
from benchmarks.populations import grouped
from benchmarks.strangers.sets import GROUPS
from benchmarks.study import Study
from tests.support.plans import mixed_domain

CELL = Cell("taxi", 8, 2, "2", 12)


@pytest.fixture(scope="module")
def result(shared: Path) -> dict[str, Any]:
    assert shared.is_dir()
    return measure(CELL, repeats=2, count=4, only=None)


@pytest.mark.slow
def test_a_cell_holds_every_method_or_the_reason_why_not(result: dict[str, Any]) -> None:
    assert {OURS, "calm", "uniform"} <= set(result["errors"])
    assert not set(result["errors"]) & set(result["skipped"])
    assert all(len(errors) == 2 for errors in result["errors"].values())
    assert all(0.0 < e < 1.0 for errors in result["errors"].values() for e in errors)
    assert all(0.5 < share <= 1.0 for share in result["coverage"][OURS])
    assert len(result["product"][OURS]) == 2
    assert result["targets"] == 4


@pytest.mark.slow
def test_a_cell_is_measured_the_same_again(result: dict[str, Any]) -> None:
    again = measure(CELL, repeats=2, count=4, only=["calm"])
    assert again["errors"]["calm"] == result["errors"]["calm"]
    assert again["errors"]["uniform"] == result["errors"]["uniform"]
    assert again["skipped"][OURS] == "not asked for"


def test_targets_are_drawn_among_those_that_fit() -> None:
    cardinalities = (9, 16, 7, 15, 6, 5, 2, 2)
    domain = mixed_domain(*cardinalities)
    sizes = {s: prod(cardinalities[i] for i in s) for s in combinations(range(8), 6)}
    fit = {s for s, cells in sizes.items() if cells <= MAX_CELLS}
    assert 0 < len(fit) < len(sizes)
    assert set(targets_of(domain, 6, 50)) == fit
    few = targets_of(domain, 6, 5)
    assert len(set(few)) == 5
    assert set(few) <= fit
    assert targets_of(domain, 6, 5) == few
    assert len(targets_of(domain, 2, 50)) == 28


def errors(ours: list[float], calm: list[float]) -> dict[str, Any]:
    return {"errors": {OURS: ours, "calm": calm, "uniform": [9.0] * len(calm)}}


def test_a_bound_is_broken_beyond_two_standard_errors_only() -> None:
    clear = errors([1.2, 1.21, 1.19, 1.2], [1.0, 1.01, 1.0, 0.99])
    assert ratio(clear, "best other") == pytest.approx(1.2)
    assert breaks(clear, "calm", 1.05)
    assert not breaks(clear, "calm", 1.25)
    noisy = errors([1.0, 1.8, 0.7, 1.3], [1.0, 1.0, 1.0, 1.0])
    assert ratio(noisy, "calm") == pytest.approx(1.2)
    assert not breaks(noisy, "calm", 1.05)
    assert not breaks(errors([2.0], [1.0]), "calm", 1.05), "one repeat shows nothing"


def test_the_mean_is_geometric() -> None:
    assert geometric([0.5, 2.0, 1.0]) == pytest.approx(1.0)


def test_columns_of_many_values_become_groups_of_neighbours() -> None:
    generator = np.random.default_rng(41)
    many = np.minimum(generator.integers(-50, 400, 4000), 300)
    table = grouped({"few": ["7", "-1"] * 2000, "many": [str(v) for v in many]})
    assert table.domain.attributes[0].labels == ("-1", "7")
    labels = table.domain.attributes[1].labels
    assert 2 < len(labels) <= GROUPS
    assert labels[0].startswith("-50..")
    ends = [int(label.split("..")[1]) for label in labels]
    assert ends == sorted(ends)
    np.testing.assert_array_equal(table.codes[:, 1], np.searchsorted(ends, many))


def test_a_run_computes_what_is_missing(
    shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert shared.is_dir()
    computed: list[Cell] = []

    def measured(cell: Cell, **_: object) -> dict[str, Any]:
        computed.append(cell)
        return {"errors": {}, "seconds": {"all": 0.0}}

    monkeypatch.setattr(grid, "measure", measured)
    args = Namespace(
        d=None, only=["taxi"], n=[16], k=[2], epsilon=None, results=tmp_path / "grid.jsonl",
        repeats=1, targets=1, methods=None,
    )  # fmt: skip
    study = Study(args.results)
    study.put("taxi-d8-k2-eps1-n16", {})
    grid.run(Study(args.results), grid.cells(args), args)
    assert [cell.epsilon for cell in computed] == ["0.2", "0.5", "2"], "taxi has 8 attributes only"
    grid.run(Study(args.results), grid.cells(args), args)
    assert len(computed) == 3
    assert list(study.read()) == [f"taxi-d8-k2-eps{e}-n16" for e in ("0.2", "0.5", "1", "2")]


def test_one_method_is_measured_again_beside_the_others(
    shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert shared.is_dir()

    def measured(calm: float) -> dict[str, Any]:
        return {
            "errors": {"calm": [calm], "uniform": [0.5]},
            "product": {},
            "coverage": {"calm": [0.9]},
            "seconds": {"methods": {"calm": {"fit": calm}}},
        }

    study = Study(tmp_path / "grid.jsonl")
    old = measured(1.0)
    old["errors"]["ft"] = [3.0]
    study.put("taxi-d8-k2-eps1-n16", old)
    monkeypatch.setattr(grid, "measure", lambda *_, **__: measured(2.0))
    args = Namespace(
        d=None, only=["taxi"], n=[16], k=[2], epsilon=None, results=study.path, share=(1, 1),
        targets=1, methods=["calm"],
    )  # fmt: skip
    grid.again(args)
    (cell,) = study.read().values()
    assert cell["errors"] == {"calm": [2.0], "uniform": [0.5], "ft": [3.0]}
    assert cell["seconds"]["methods"]["calm"] == {"fit": 2.0}
