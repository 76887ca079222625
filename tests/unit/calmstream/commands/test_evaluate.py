"""Check the remarks of `calmstream evaluate`.

They are about tables before correction, and about methods that are worse than the uniform table.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from calmstream.cli import main


@pytest.fixture
def alike(tmp_path: Path) -> Path:
    """Return records that are nearly even, so that hardly any method beats the uniform table."""
    path = tmp_path / "people.csv"
    path.write_text("a,b,c\n" + "\n".join(f"{i % 5},{i // 5 % 5},{i % 2}" for i in range(100)))
    return path


def evaluated(data: Path, methods: str, *more: str) -> list[str]:
    words = ["--method", methods, "--epsilon", "1", "--k", "2", "--users", "300", "--repeats", "2"]
    return ["evaluate", str(data), *words, "--tallies", "law", *more]


def test_a_method_that_is_worse_than_knowing_nothing_is_named(
    alike: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for more in ((), ("--json",)):
        assert main(evaluated(alike, "inp-ps,uniform", *more)) == 0
        messages = capsys.readouterr().err.splitlines()
        (warning,) = (text for text in messages if "the uniform table is better" in text)
        assert warning.startswith("inp-ps, epsilon 1: its SSE, ")


def test_the_uniform_table_s_error_is_that_of_the_method_uniform(
    alike: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(evaluated(alike, "uniform,inp-ps", "--json")) == 0
    out, err = capsys.readouterr()
    uniform = json.loads(out.splitlines()[0])["sse_mean"]
    assert f"above that of the uniform table, {uniform:.3g}:" in err


def test_a_method_that_is_better_is_not_warned_of(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "people.csv"
    path.write_text("a,b,c\n" + "x,1,p\ny,2,q\nx,2,q\nx,2,q\n" * 20)
    words = [word if word != "300" else "30000" for word in evaluated(path, "calm,rr-joint")]
    assert main(words) == 0
    assert "uniform table" not in capsys.readouterr().err


def test_raw_tables_are_marked_as_raw_beside_corrected_ones(
    alike: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(evaluated(alike, "calm,rr-ind-joint")) == 0
    shown = capsys.readouterr().out
    rows = [text for text in shown.splitlines() if text.startswith(("calm ", "rr-ind-joint "))]
    assert ["(raw)" in row for row in rows] == [False, True]
    assert float(rows[1].split()[5]) > 1, "a total variation that no distribution has"
    assert "(raw): published without the correction" in shown
    assert "TV can exceed 1" in shown
    assert main(evaluated(alike, "calm,rr-ind-joint", "--json")) == 0
    out, err = capsys.readouterr()
    assert len(out.splitlines()) == 2
    assert "rr-ind-joint: its tables are published without" in err
    assert "calm: its tables" not in err
