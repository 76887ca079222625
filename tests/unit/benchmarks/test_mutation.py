"""Check which mutants of a source file are found, and that they are found after a move."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.mutation.finder import Finder, find_again, matches, sample

SOURCE = '''"""Adds 1."""
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import logging
__all__ = ["Gate" + "s"]

class Shape(Protocol):
    size = 1 + 2

class Gate:
    def passes(self, n: int, log: "logging.Logger") -> bool | None:
        """Passes 1 of 2."""
        if not n:
            raise ValueError(f"{n + 1} is no count" + "!")
        log.info("passed %d", n + 1)
        self.last = n
        return n < self.limit
'''

CHANGES = {
    ("not removed", "not n", "(n)"),
    ("statement deleted", "self.last = n", "pass"),
    ("None returned", "return n < self.limit", "return None"),
    ("Lt to LtE", "n < self.limit", "(n <= self.limit)"),
}


def test_texts_types_logs_and_protocols_have_no_mutants() -> None:
    found = Finder("gate.py", "engine", SOURCE.encode()).found
    assert {(m.kind, m.old, m.new) for m in found} == CHANGES
    assert {m.function for m in found} == {"Gate.passes"}


def test_each_mutant_is_found_in_moved_and_reformatted_source(tmp_path: Path) -> None:
    (tmp_path / "gate.py").write_text(SOURCE + "        n = 1; n = 1\n")
    before = sample(tmp_path, {"gate.py": "engine"}, 100, 1)
    (tmp_path / "part.py").write_text("")
    (tmp_path / "door.py").write_text(
        "x = 1\n\n" + SOURCE.replace("n < self", "n  <  self") + "        n = 1\n        n = 1\n"
    )
    (tmp_path / "gate.py").unlink()
    records = [mutant.record() for mutant in before]
    after = find_again(tmp_path, records, {"gate.py": ["part.py", "door.py"]})
    assert len(after) == len(CHANGES) + 2
    assert all(not isinstance(mutant, str) and mutant.file == "door.py" for mutant in after)
    places = {(m.line, m.column) for m in after if not isinstance(m, str)}
    assert len(places) == len({(m.line, m.column) for m in before})


def test_mutants_follow_a_class_that_has_a_new_name(tmp_path: Path) -> None:
    (tmp_path / "gate.py").write_text(SOURCE)
    records = [m.record() for m in sample(tmp_path, {"gate.py": "engine"}, 100, 1)]
    (tmp_path / "gate.py").write_text(SOURCE.replace("class Gate", "class Door"))
    assert find_again(tmp_path, records, {}) == ["gone"] * len(CHANGES)
    for new in ("Door", ["Wall", "Door"]):
        after = find_again(tmp_path, records, {"gate.py::Gate": new})
        assert {m if isinstance(m, str) else m.function for m in after} == {"Door.passes"}
    after = find_again(tmp_path, records, {"gate.py::Gate.passes": "Door.passes"})
    assert all(not isinstance(mutant, str) for mutant in after)


def test_lost_mutants_are_gone_or_changed(tmp_path: Path) -> None:
    (tmp_path / "gate.py").write_text("def one() -> int:\n    return 1\n")
    records = [m.record() for m in sample(tmp_path, {"gate.py": "engine"}, 100, 1)]
    assert len(records) == 1
    (tmp_path / "gate.py").write_text("def one() -> int:\n    return 3\n")
    assert find_again(tmp_path, records, {}) == ["changed"]
    (tmp_path / "gate.py").write_text("def two() -> int:\n    return 1\n")
    assert find_again(tmp_path, records, {}) == ["gone"]
    assert find_again(tmp_path, records, {"gate.py": "nowhere.py"}) == ["gone"]


def test_a_glob_without_files_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"no file matches none/\*.py"):
        matches(tmp_path, ["none/*.py"])
