"""Check the kinds that options of ``calmstream plan`` declare."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from calmstream.cli import main
from calmstream.common.errors import InvalidInput
from calmstream.estimators.kinds import Number
from calmstream.planning.declared import number_entry


def edges(text: str) -> list[str]:
    found: list[str] = number_entry("x", text)["edges"]
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


@pytest.mark.parametrize("levels", [2, 3, 32, 64, 1000, 4095])
@pytest.mark.parametrize("scale", ["lin", "log"])
def test_rounding_moves_no_edge_by_much(scale: str, levels: int) -> None:
    found = [float(edge) for edge in edges(f"0.07:123456.7:{scale}:{levels}")]
    assert len(found) == levels + 1
    assert (found[0], found[-1]) == (0.07, 123456.7)
    for i in range(1, levels):
        exact = (
            0.07 + (123456.7 - 0.07) * i / levels
            if scale == "lin"
            else 0.07 * (123456.7 / 0.07) ** (i / levels)
        )
        assert abs(found[i] - exact) <= 0.0101 * (found[i] - found[i - 1])


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("10:1:lin:4", "edges must rise, but the lowest, 10, is not below the highest, 1"),
        ("1:1:lin:4", "edges must rise"),
        ("0:10:log:4", "a log scale needs a lowest value above 0, got 0"),
        ("-1:10:log:4", "above 0"),
        ("1:10:sqrt:4", "unknown scale 'sqrt'; there are lin and log"),
        ("1:10:lin:1000000", "1,000,000 levels; expected 2 to 4,095"),
        ("1:10:lin:1", "1 levels; expected 2"),
        ("1:10:lin:many", "'many' are no whole number"),
        ("1:10:lin:-3", "'-3' are no whole number"),
        ("one:10:lin:3", "'one' is not a number"),
        ("nan:10:lin:3", "'nan' is not a number"),
        ("1:inf:lin:3", "'inf' is not a number"),
        ("1:1e30:log:3", "'1e30' is not a number below"),
        ("0:1e-17:lin:4000", "more than 18 decimal places"),
        ("1:10:lin", "expected LOWEST:HIGHEST"),
        ("1:10:lin:4:s:bin:more", "expected LOWEST:HIGHEST"),
    ],
)
def test_bounds_without_edges_are_refused_with_the_reason(text: str, why: str) -> None:
    with pytest.raises(InvalidInput, match=f"--number x: .*{why}"):
        edges(text)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "people.csv"
    lines = [f"{i * 1.5},{'smL'[i % 3]},{'EU' if i % 2 else 'US'},mail|maps" for i in range(200)]
    path.write_text("\n".join(["ms,size,region,apps", *lines]) + "\n")
    return path


def planned(path: Path, *more: str) -> int:
    start = ["plan", str(path), "--epsilon", "1", "--users", "100000", "--k", "1", "--json"]
    return main([*start, *more])


NUMBER = ("--number", "ms=1:1000:log:3:ms")


def test_a_declared_column_is_not_learnt(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    more = ("--ordered", "size=s|m|L", "--choices", "apps=mail|maps|other")
    assert planned(table, *NUMBER, *more) == 0
    printed = json.loads(capsys.readouterr().out)
    domain = {entry["name"]: entry for entry in printed["plan"]["domain"]}
    assert list(domain) == ["ms", "size", "region", "apps"]
    assert domain["ms"]["edges"] == ["1", "10", "100", "1000"]
    assert (domain["ms"]["unit"], domain["ms"]["kind"]) == ("ms", "number")
    assert domain["size"] == {"name": "size", "kind": "ordered", "labels": ["s", "m", "L"]}
    assert domain["apps"]["options"] == ["mail", "maps", "other"]
    # The labels of region were learnt still.
    assert any("learnt from data" in line for line in printed["warnings"])


def test_nothing_is_learnt_where_all_is_declared(
    table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert planned(table, *NUMBER, "--columns", "ms") == 0
    printed = json.loads(capsys.readouterr().out)
    assert not any("learnt from data" in line for line in printed["warnings"])
    edges_alone = printed["plan"]["domain"][0]["edges"]
    table.write_text("ms\n3\n4\n5000000\n")
    assert planned(table, *NUMBER) == 0
    assert json.loads(capsys.readouterr().out)["plan"]["domain"][0]["edges"] == edges_alone


@pytest.mark.parametrize(
    ("more", "why"),
    [
        (("--number", "ms"), "--number 'ms': expected A=LOWEST:HIGHEST"),
        (("--number", "s=1:2:lin:2"), "no column 's'; there are ms, size, region, apps"),
        ((*NUMBER, "--ordered", "ms=1|2"), "--ordered ms: the column is declared twice"),
        ((*NUMBER, "--columns", "region"), "column 'ms' is declared, but not used"),
        (("--ordered", "size=s|m"), "'size' has no label 'L'"),
        (("--ordered", "size=s"), "needs 2 to 4096 labels, got 1"),
        (("--ordered", "size=s|s"), "two equal labels"),
        (("--number", "region=1:2:lin:2"), "row 1: 'US' is not a finite number"),
        (("--choices", "apps=" + "|".join(map(str, range(1000)))), "different options, got 1,000"),
        (("--choices", "apps=mail||maps"), "--choices apps: options: expected a list of non-empty"),
        (("--summaries", "mean"), "--summaries: no attribute is a number, ordered or an option"),
        ((*NUMBER, "--summaries", "mode"), "summaries: 'mode' is none of mean"),
        ((*NUMBER, "--summaries", "share:1+"), "--summaries: 'share:1[+]' is of one attribute"),
    ],
)
def test_declarations_that_do_not_fit_are_refused_in_one_line(
    table: Path, capsys: pytest.CaptureFixture[str], more: tuple[str, ...], why: str
) -> None:
    assert planned(table, *more) == 2
    text = capsys.readouterr().err.strip()
    assert "\n" not in text
    assert re.search(why, text), text


def test_a_plan_says_which_statistics_its_tables_have(
    table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert planned(table, *NUMBER, "--summaries", "mean,q.90,q0.9,median") == 0
    plan = json.loads(capsys.readouterr().out)["plan"]
    assert plan["summaries"] == ["mean", "q0.9", "median"]


def test_a_data_dictionary_states_the_kinds_itself(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "domain.json"
    path.write_text('[{"name": "ms", "labels": ["1", "2"]}]')
    assert planned(path, *NUMBER) == 2
    assert "states the kinds" in capsys.readouterr().err


def test_a_file_of_bits_has_no_kinds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert planned(tmp_path / "bits.npz", "--number", "a0=0:1:lin:2") == 2
    assert "a file of bits has no kinds" in capsys.readouterr().err
