"""Check the file of a study's results: written by several processes, always whole and sorted."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import orjson
import pytest

from benchmarks.study import Study

ROOT = Path(__file__).parents[3]


@pytest.fixture
def study(tmp_path: Path) -> Study:
    return Study(tmp_path / "grid.jsonl")


def test_results_are_lines_in_the_order_of_names(study: Study) -> None:
    for name in ("b", "c", "a"):
        study.put(name, {"errors": [0.1 + 0.2]})
    study.put("b", {"errors": []})
    entries = [orjson.loads(line) for line in study.path.read_bytes().splitlines()]
    assert [entry["name"] for entry in entries] == ["a", "b", "c"]
    assert study.read()["b"] == {"errors": []}
    assert study.read()["c"] == {"errors": [0.30000000000000004]}


def test_a_cell_is_claimed_once(study: Study) -> None:
    assert study.claim("a")
    assert not study.claim("a"), "this process measures it"
    assert study.claim("b"), "a claim covers one cell only"
    study.release("a")
    assert study.claim("a"), "it was given back"
    study.put("a", {})
    assert not study.claim("a"), "it has a result"


def test_two_processes_divide_the_cells_and_lose_none(study: Study) -> None:
    program = (
        "import sys; from pathlib import Path; from benchmarks.study import Study\n"
        "study = Study(Path(sys.argv[1]))\n"
        "for i in range(60):\n"
        "    if study.claim(str(i)):\n"
        "        print(i)\n"
        "        study.put(str(i), {'cell': 7})\n"
    )
    command = [sys.executable, "-c", program, str(study.path)]
    running = [
        subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) for _ in range(2)
    ]
    measured = [process.communicate(timeout=60)[0].split() for process in running]
    assert [process.returncode for process in running] == [0, 0]
    assert sorted(int(i) for cells in measured for i in cells) == list(range(60))
    assert study.read() == {str(i): {"cell": 7} for i in range(60)}
