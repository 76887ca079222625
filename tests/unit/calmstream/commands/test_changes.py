from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import orjson
import pytest

from calmstream.estimators.plan import Plan
from tests.support.publisher import Bench, published_plan, work
from tests.unit.calmstream.conftest import Command, Done, Over

EVEN = [0] * 100 + [1] * 100 + [2] * 100 + [3] * 100
ODD = [0] * 250 + [1] * 50 + [2] * 50 + [3] * 50
Run = Callable[..., Done]


def bench_of(plan: Plan, *windows: list[int], beside: Bench | None = None) -> Bench:
    bench = Bench(plan, beside, test_changes=True)
    for log in bench.logs:
        for number, cells in enumerate(windows):
            log.report(number, *cells)
        for number in range(len(windows)):
            log.close(number)
    bench.put_all()
    work(bench.publication())
    return bench


@pytest.fixture
def run(tmp_path: Path, over: Over, monkeypatch: pytest.MonkeyPatch, command: Command) -> Run:
    monkeypatch.setenv("COLUMNS", "80")

    def changes(bench: Bench, *words: object, other: Plan | None = None) -> Done:
        if other is not None:
            (tmp_path / "other.json").write_bytes(other.to_bytes())
            words = (*words, "--other-plan", tmp_path / "other.json")
        return command("changes", *over(bench.plan, bench.broker), *words)

    return changes


def shifted() -> Bench:
    return bench_of(published_plan(windows=3, groups=1), EVEN, EVEN, ODD)


def test_the_page_fits_eighty_columns(run: Run) -> None:
    code, out, err = run(shifted())
    assert (code, err) == (0, "")
    assert max(map(len, out.splitlines())) <= 80
    assert "2 of 2 tables changed" in out


def test_the_object_has_raw_and_fitted_differences(run: Run) -> None:
    _, out, _ = run(shifted(), "--json")
    for table in orjson.loads(out)["tables"]:
        for cell in table["differences"]:
            assert set(cell) == {"labels", "value", "stderr", "modelled", "modelled_stderr"}
            gap = abs(cell["modelled"] - cell["value"])
            assert gap <= 3 * (cell["stderr"] + cell["modelled_stderr"])
        assert sum(cell["modelled"] for cell in table["differences"]) == pytest.approx(0, abs=1e-5)
    _, out, _ = run(shifted(), "--json", "--window", "1")
    first = orjson.loads(out)["tables"][0]["differences"][0]
    assert first["modelled"] == pytest.approx(0.0, abs=1e-6)


def test_two_plans_have_fitted_differences_of_each(run: Run) -> None:
    bench = shifted()
    other = replace(bench.plan, name="other", lineage="f" * 32)
    bench_of(other, EVEN, EVEN, EVEN, beside=bench)
    code, out, _ = run(bench, "--json", other=other)
    assert code == 0
    found = orjson.loads(out)
    assert found["other_plan"] == other.digest
    cell = found["tables"][0]["differences"][0]
    assert cell["modelled"] == pytest.approx(cell["value"], abs=1e-4)
    assert cell["value"] > 0.0
