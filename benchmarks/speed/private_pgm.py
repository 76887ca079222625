"""Measure noise-aware beside Private-PGM (the package `mbi`) on 50 four-way views of 16 bits.

Both fit and answer 50 three-way tables from the same tallies, at epsilon 1 with 2^18 devices. Only
Private-PGM's warm fits count: the first fit of a process compiles.

    .venv-pgm/bin/python -m benchmarks.speed.private_pgm REPEATS

prints the best processor seconds of both, in the environment that ``make pgm`` makes.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.speed.rows import Row, best

PYTHON = Path(__file__).resolve().parents[2] / ".venv-pgm" / "bin" / "python"


def rows(repeats: int) -> Iterator[Row]:
    if not PYTHON.exists():
        print(f"the line about Private-PGM needs {PYTHON} (make pgm ARGS=table)", file=sys.stderr)
        return
    command = [str(PYTHON), "-m", "benchmarks.speed.private_pgm", str(repeats)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    ours, other = json.loads(done.stdout)
    yield Row(
        "fit and 50 three-way tables, 50 four-way views of 16 bits",
        "fits/min",
        "at least 40 times mbi's",
        60 / ours,
        60 / other,
        "Private-PGM's mirror descent, warm",
    )


def _measure(repeats: int) -> tuple[float, float]:
    import benchmarks.pgm.__main__  # noqa: F401 - sets one thread before the package is loaded
    from benchmarks.pgm.fit import as_shipped
    from benchmarks.pgm.measure import SOLVERS
    from benchmarks.pgm.problem import Point, draw, ours

    point = Point("kosarak", 16, "1", 18, "four-way")
    problem = draw(point, point.plan(), 0)
    as_shipped(problem, SOLVERS[0])

    def own() -> float:
        result = ours(problem)
        return float(str(result["fit"])) + float(str(result["answer"]))

    ours_best, other = best(repeats, own, lambda: as_shipped(problem, SOLVERS[0]))
    return ours_best, other


if __name__ == "__main__":
    print(json.dumps(_measure(int(sys.argv[1]))))
