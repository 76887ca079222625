"""Compares the edge in TypeScript with Python, byte for byte.

    python -m tests.support.edge_conformance --cases 100000

For every mechanism Python makes cases with their reports, and Node answers them.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.support.edge_cases import SPECS, write_cases

EDGE = Path(__file__).resolve().parents[2] / "edge" / "typescript"
ANSWER = EDGE / "build" / "tools" / "answer.mjs"
NODE = ("node", "--no-warnings")
TIMEOUT = 3600.0


def differences(name: str, count: int, seed: int, folder: Path) -> list[str]:
    """Compare the reports of one mechanism.

    Args:
        name: of the mechanism.
        count: of cases.
        seed: of everything random.
        folder: for cases and answers.

    Returns:
        One line per report that differs, or that left random bytes unread.
    """
    cases, answers = folder / f"{name}.jsonl", folder / f"{name}.txt"
    with cases.open("w") as out:
        reports = list(write_cases(name, count, seed, out))
    subprocess.run([*NODE, str(ANSWER), str(cases), str(answers)], check=True, timeout=TIMEOUT)
    given = answers.read_bytes().splitlines()
    assert len(given) == count == len(reports)
    return list(_lines(name, given, reports))


def _lines(name: str, given: list[bytes], reports: list[bytes]) -> Iterator[str]:
    for number, (ours, theirs) in enumerate(zip(reports, given, strict=True)):
        if theirs != ours + b"\t0":
            yield f"{name} case {number}: expected {ours!r}, got {theirs!r}"


def main() -> int:
    """Compare every mechanism; the number of differences decides the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=100_000, help="of every mechanism")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    wrong = 0
    for name in SPECS:
        began = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            found = differences(name, arguments.cases, arguments.seed, Path(folder))
        wrong += len(found)
        for line in found[:3]:
            print(line)
        seconds = time.monotonic() - began
        print(f"{name}: {arguments.cases} cases, {len(found)} differ, {seconds:.0f} s", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
