"""Compares the edge in TypeScript with Python, byte for byte.

    python -m tests.support.typescript.conformance --cases 100000

For every mechanism Python makes cases with their reports, and Node answers them.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from io import StringIO

from tests.support.typescript.cases import HASHED, SPECS, write_cases
from tests.support.typescript.package import answers

TIMEOUT = 3600.0


def differences(name: str, count: int, seed: int) -> list[str]:
    """Return a line for each report that differs, or that left random bytes unread."""
    cases = StringIO()
    reports = list(write_cases(name, count, seed, cases))
    given = answers("answer", cases.getvalue().splitlines(), TIMEOUT)
    assert len(given) == count == len(reports)
    return list(_lines(name, given, reports))


def _lines(name: str, given: list[str], reports: list[bytes]) -> Iterator[str]:
    for number, (ours, theirs) in enumerate(zip(reports, given, strict=True)):
        if theirs != f"{ours.decode()}\t0":
            yield f"{name} case {number}: expected {ours!r}, got {theirs!r}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=100_000, help="of every mechanism")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    wrong = 0
    for name in (*SPECS, HASHED):
        began = time.monotonic()
        found = differences(name, arguments.cases, arguments.seed)
        wrong += len(found)
        seconds = time.monotonic() - began
        line = f"{name}: {arguments.cases} cases, {len(found)} differ, {seconds:.0f} s"
        print("\n".join([*found[:3], line]), flush=True)  # noqa: T201 - what was asked for
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
