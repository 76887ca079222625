"""Check which mutants of a source file are found, and that they are found after a move."""

from __future__ import annotations

from pathlib import Path

from benchmarks.mutation.finder import Finder, find_again, sample

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
