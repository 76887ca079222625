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
        assert warning.startswith("inp-ps, epsilon 1: its sse_mean, ")


def test_raw_tables_are_marked_as_raw_beside_corrected_ones(
    alike: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(evaluated(alike, "calm,rr-ind-joint")) == 0
    shown = capsys.readouterr().out
    rows = [text for text in shown.splitlines() if text.startswith(("calm ", "rr-ind-joint "))]
    assert ["(raw)" in row for row in rows] == [False, True]
    assert float(rows[1].split()[6]) > 1, "a total variation that no distribution has"
    assert "(raw): published without the correction" in shown
    assert "TV can exceed 1" in shown


def test_numbers_of_a_data_dictionary_are_measured_in_ranges(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    people, dictionary = tmp_path / "people.csv", tmp_path / "domain.json"
    people.write_text("ms,apps\n" + "\n".join(f"{i % 37},mail|x" for i in range(100)))
    number = {"name": "ms", "kind": "number", "edges": [0, 1.5, 30], "rounding": "grid"}
    choice = {"name": "apps", "kind": "choices", "options": ["mail", "maps"]}
    dictionary.write_text(json.dumps([number, choice]))
    words = evaluated(people, "calm", "--domain", str(dictionary), "--ranges", "9")
    assert main([*words, "--json"]) == 0
    (line,) = map(json.loads, capsys.readouterr().out.splitlines())
    assert line["d"] == 3
    for name in ("range_mse", "wasserstein", "mean_error", "median_error"):
        assert 0.0 <= line[name] < 10.0
    assert "ranges" not in line
    assert main(words) == 0
    assert "wasserstein" in capsys.readouterr().out
