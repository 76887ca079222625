"""Check that the table in `tests/README.md` names exactly the files that hold slow tests."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).resolve().parents[2]
MARK = "mark." + "slow"


def listed() -> set[Path]:
    """Return the files of the table; a bare name stands in the folder of the file before it."""
    files: set[Path] = set()
    section = (TESTS / "README.md").read_text().partition("## What only `make test-all` runs")[2]
    for row in re.findall(r"^\| (`.*?`) \|", section.partition("\n## ")[0], re.MULTILINE):
        folder = TESTS
        for name in re.findall(r"`(.*?)`", row):
            path = TESTS / name if "/" in name else folder / name
            folder = path.parent
            files.add(path)
    return files


def test_the_table_names_the_files_with_slow_tests() -> None:
    marked = {path for path in TESTS.rglob("test_*.py") if MARK in path.read_text()}
    assert marked
    assert listed() == marked
