from __future__ import annotations

import json
import re
import shlex
import statistics
from pathlib import Path

import pytest

import calmstream
from benchmarks.study import Study
from calmstream.cli import main
from tests.support.plans import CRASHES

ROOT = Path(__file__).parents[3]
README = (ROOT / "README.md").read_text()
COMMANDS = re.findall(r"^calmstream (.*)$", README.replace("\\\n", " "), re.MULTILINE)
SNIPPETS = re.findall(r"^```python\n(.*?)^```", README, re.MULTILINE | re.DOTALL)

GRID = Study(ROOT / "benchmarks" / "results" / "grid.jsonl")


def words(command: str) -> list[str]:
    return shlex.split(command, comments=True)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("domain.json").write_text(json.dumps(CRASHES))
    assert main(words(next(c for c in COMMANDS if c.startswith("plan")))) == 0
    return tmp_path


@pytest.mark.parametrize("method", ["uniform", "calm", "noise-aware"])
def test_the_errors_of_the_readme_are_those_of_the_grid(method: str) -> None:
    (row,) = re.findall(rf"^\| `{method}`[^|]*\|(.*)\|$", README, re.MULTILINE)
    for printed, epsilon in zip(row.split("|"), ("0.2", "1", "2"), strict=True):
        errors = GRID.read()[f"kosarak-d16-k3-eps{epsilon}-n18"]["errors"][method]
        assert float(printed) == pytest.approx(sum(errors) / len(errors), rel=0.05), epsilon


def test_the_coverage_of_the_readme_is_that_of_the_grid() -> None:
    cells = [cell["coverage"]["noise-aware"] for cell in GRID.read().values()]
    shares = sorted(100 * sum(cell) / len(cell) for cell in cells)
    low, high, middle = re.search(r"(\d+) to ([\d.]+) %, in the\s+median (\d+) %", README).groups()  # type: ignore[union-attr]
    assert float(low) == pytest.approx(shares[0], abs=0.6)
    assert float(high) == pytest.approx(shares[-1], abs=0.06)
    assert float(middle) == pytest.approx(statistics.median(shares), abs=0.6)


def test_a_device_as_in_the_readme_keeps_a_report(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (ROOT / "docs" / "signed-plans.md").read_text().replace("\\\n", " ")
    text = re.sub(r"--from \S+ --until \S+", "--from 2020-01-01 --until 2099-12-31", text)
    for command in re.findall(r"^calmstream ((?:keys|plan|sign) .*)$", text, re.MULTILINE):
        if command.startswith("plan"):
            Path("plan.json").unlink()
        assert main(words(command)) == 0
    (snippet,) = (s for s in SNIPPETS if "Reporter" in s)
    monkeypatch.setattr(calmstream.Outbox, "deliver", lambda _: "no gateway")
    for _ in range(2):
        exec(snippet.replace("/var/lib/myapp", str(folder)), {})
    assert len(calmstream.history(calmstream.FileStore(folder / "calmstream.json"))) == 1
