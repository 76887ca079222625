from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from calmstream.common.errors import InvalidInput
from calmstream.estimators.kinds import Number
from calmstream.tables.declared import number_entry
from tests.unit.calmstream.conftest import Command, Refused


def edges(text: str) -> list[str]:
    found: list[str] = number_entry(f"x={text}")["edges"]
    Number(tuple(found))
    return found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0:10:lin:5:s", ["0", "2", "4", "6", "8", "10"]),
        ("1:10000:log:4", ["1", "10", "100", "1000", "10000"]),
        ("1:10:lin:7", ["1", "2.29", "3.57", "4.86", "6.14", "7.43", "8.71", "10"]),
        ("-0.5:0.5:lin:2", ["-0.5", "0", "0.5"]),
        ("1e-3:1e3:log:2", ["0.001", "1", "1000"]),
        ("0:100:lin:5:years:grid", ["0", "25", "50", "75", "100"]),
        ("0:1:lin:2:s:bin", ["0", "0.5", "1"]),
    ],
)
def test_edges_follow_from_bounds_scale_and_levels(text: str, expected: list[str]) -> None:
    assert edges(text) == expected


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("10:1:lin:4", "the lowest must be below the highest"),
        ("0:10:log:4", "above 0 with log"),
        ("1:10:lin:1000000", "the levels 2 to 4,095"),
        ("1:10:sqrt:4", "expected A=LOWEST:HIGHEST:lin|log"),
        ("one:10:lin:3", "expected A=LOWEST"),
    ],
)
def test_bounds_without_edges_are_refused_with_the_reason(text: str, why: str) -> None:
    with pytest.raises(InvalidInput, match=f"--number 'x={re.escape(text)}': .*{re.escape(why)}"):
        edges(text)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "people.csv"
    lines = [f"{i * 1.5},{'EU' if i % 2 else 'US'}" for i in range(200)]
    path.write_text("\n".join(["ms,region", *lines]) + "\n")
    return path


NUMBER = ("--number", "ms=1:1000:log:3:ms")


def test_a_declared_column_is_not_learnt(table: Path, command: Command) -> None:
    found = []
    for text in (table.read_text(), "ms,region\n3,EU\n4,US\n5000000,EU\n"):
        table.write_text(text)
        found.append(json.loads(command("look", table, *NUMBER, "--json").out))
    assert found[0] == found[1]
    assert found[0][0]["edges"] == ["1", "10", "100", "1000"]
    assert (found[0][0]["unit"], found[0][0]["kind"]) == ("ms", "number")


@pytest.mark.parametrize(
    ("more", "why"),
    [
        (("--number", "s=1:2:lin:2"), "column 's' is declared, but not used"),
        ((*NUMBER, *NUMBER), "--number ms: the column is declared twice"),
        ((*NUMBER, "--columns", "region"), "column 'ms' is declared, but not used"),
        (("--number", "region=1:2:lin:2"), "line 2: 'region' has 'US', which is not a finite"),
    ],
)
def test_declarations_that_do_not_fit_are_refused_in_one_line(
    table: Path, refused: Refused, more: tuple[str, ...], why: str
) -> None:
    assert re.search(why, refused("look", table, *more))


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("mean,q.90,q0.9,median", ""),
        ("mode", "summaries: 'mode' is none of mean"),
        ("share:1+", "--summaries: 'share:1[+]' is of one attribute"),
    ],
)
def test_a_plan_says_which_statistics_its_tables_have(
    table: Path, command: Command, words: str, why: str
) -> None:
    dictionary = table.with_suffix(".json")
    assert command("look", table, *NUMBER, "--out", dictionary).code == 0
    start = ("plan", dictionary, "--epsilon", "1", "--users", "100000", "--k", "1", "--json")
    done = command(*start, "--summaries", words)
    assert done.code == 2 * bool(why)
    assert re.search(why, done.err)
    if not why:
        assert json.loads(done.out)["plan"]["summaries"] == ["mean", "q0.9", "median"]
