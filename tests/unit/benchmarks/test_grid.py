"""Check the grid: which methods are measured or left out, and which cells are above a bound."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest

import benchmarks.grid.__main__ as grid
from benchmarks.grid.cells import OURS, Cell
from benchmarks.grid.table import breaks, ratio
from benchmarks.study import Study


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
