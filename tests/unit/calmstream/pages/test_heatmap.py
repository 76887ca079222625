"""Check the heat map example: its picture, and its message without matplotlib."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from calmstream.consumer.subscribe.assembler import Table

EXAMPLE = Path(__file__).resolve().parents[4] / "examples" / "heatmap.py"


@pytest.fixture
def heatmap() -> ModuleType:
    spec = importlib.util.spec_from_file_location("heatmap", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Pane:
    """Axes that remember what was asked of them."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []

    def __getattr__(self, name: str) -> Any:
        return lambda *args, **options: self.calls.append((name, args, options))

    def texts(self) -> list[str]:
        return [args[2] for name, args, _ in self.calls if name == "text"]

    def hatched(self) -> int:
        return sum(name == "add_patch" for name, _, _ in self.calls)


def test_values_and_intervals_stand_side_by_side_and_the_unsure_is_hatched(
    heatmap: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heatmap, "_hatched", lambda x, y: (x, y))
    table = Table(
        attributes=("one", "two"),
        labels=(("a", "b"), ("c", "d")),
        table=np.array([[0.5, 0.01], [0.29, 0.2]]),
        stderr=np.full((2, 2), 0.01),
        flags=(),
        reports=100,
    )
    panes = [Pane(), Pane()]
    heatmap.draw(table, ("one", "two"), panes)
    assert panes[0].texts() == ["50.0", "1.0", "29.0", "20.0"]
    assert panes[1].texts() == ["2.0"] * 4
    assert (panes[0].hatched(), panes[1].hatched()) == (1, 0)
    assert ("add_patch", ((1.0, 0.0),), {}) in panes[0].calls
