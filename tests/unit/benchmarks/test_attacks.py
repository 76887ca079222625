"""The file of attacks: one that is held says so, and whatever goes wrong counts as broken."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "benchmarks" / "attacks.py"


def test_attacks_that_are_held() -> None:
    words = [sys.executable, str(SCRIPT), "--only", "A10"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "2 of 2 held"
    assert "over_limit: 65536 reports" in done.stdout


def test_an_attack_without_a_verdict_counts_as_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    held, what = importlib.import_module("attacks").attempt("attacks_on_readers", "no such attack")
    assert not held
    assert what == "the process ends with 1: KeyError: 'no such attack'"
