"""The notebooks run and show what is near the truth."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib import pyplot as plt

EXAMPLES = Path(__file__).parents[3] / "examples"
FAR = 6  # standard errors that no estimate is away from the truth


@pytest.fixture
def _in_examples(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.syspath_prepend(EXAMPLES)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    mpl.use("Agg")


def cells(name: str) -> list[str]:
    notebook = json.loads((EXAMPLES / name).read_text())
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert not any(cell["outputs"] or cell["execution_count"] for cell in code)
    return ["".join(cell["source"]) for cell in code]


def run(name: str) -> tuple[dict[str, Any], list[str]]:
    names: dict[str, Any] = {}
    shown = []
    for source in cells(name):
        tree = ast.parse(source)
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, name, "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), name, "eval"), names)
            if hasattr(value, "_repr_html_"):
                shown.append(value._repr_html_())
    return names, shown


@pytest.mark.usefixtures("_in_examples")
def test_a_table_becomes_a_plot_with_error_bars() -> None:
    names, shown = run("first_table.ipynb")
    assert names["snapshot"].manifest.reports == len(names["people"])
    assert sum('class="calmstream"' in text for text in shown) == 2
    shares = names["shares"]
    away = np.abs(shares["value"] - names["truth"][shares.index]) / shares["stderr"]
    assert len(shares) == 7
    assert away.max() < FAR
    assert plt.gcf().axes
    plt.close("all")


@pytest.mark.usefixtures("_in_examples")
def test_a_trend_is_found_with_its_error_bars() -> None:
    names, shown = run("trend.ipynb")
    assert sum('class="calmstream"' in text for text in shown) == 4
    finals, currents = names["finals"], names["currents"]
    assert len(finals) == len(currents) == names["DAYS"]
    assert (np.abs(finals["value"] - names["truth"]) / finals["stderr"]).max() < FAR
    assert currents["stderr"].iloc[-1] < finals["stderr"].iloc[-1]
    assert names["now"].table[1] == pytest.approx(currents["value"].iloc[-1])
    assert names["found"].rows()[0]["p_adjusted"] < 0.01
    assert names["crashes"].table == pytest.approx(np.array([[0.9, 0.1], [0.8, 0.2]]), abs=0.06)
    plt.close("all")
