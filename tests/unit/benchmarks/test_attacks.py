"""Check the program of attacks: it prints verdicts, and counts an error as a successful attack."""

from __future__ import annotations

import subprocess
import sys

import pytest

from benchmarks.attacks.__main__ import attempt


@pytest.mark.slow
def test_attacks_that_are_held() -> None:
    words = [sys.executable, "-m", "benchmarks.attacks", "--only", "A10"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "1 of 1 held"
    assert "over_limit: 65535 reports" in done.stdout


def test_an_attack_without_a_verdict_counts_as_broken() -> None:
    held, what = attempt("readers", "no such attack")
    assert not held
    assert what == "the process ends with 1: KeyError: 'no such attack'"
