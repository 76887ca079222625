"""The command line: exit codes, one clear line for every mistake, never a traceback."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from calmstream.cli import COMMANDS, main

DOMAIN = [
    {"name": "region", "labels": ["EU", "US", "other"], "other": "other"},
    {"name": "theme", "labels": ["dark", "light"]},
    {"name": "crashed", "labels": ["no", "yes"]},
]


@pytest.fixture
def dictionary(tmp_path: Path) -> Path:
    path = tmp_path / "domain.json"
    path.write_text(json.dumps(DOMAIN))
    return path


@pytest.fixture
def plan(dictionary: Path, tmp_path: Path) -> Path:
    path = tmp_path / "plan.json"
    assert main(planned(dictionary, "--out", path)) == 0
    return path


def planned(data: object, *more: object, epsilon: str = "1", k: int = 2) -> list[str]:
    start = ["plan", data, "--epsilon", epsilon, "--users", "100,000", "--k", k, *more]
    return [str(word) for word in start]


def line(capsys: pytest.CaptureFixture[str]) -> str:
    """The one line on stderr."""
    text = capsys.readouterr().err.strip()
    assert "\n" not in text
    assert text.startswith("calmstream: ")
    return text


def test_every_command_explains_itself(capsys: pytest.CaptureFixture[str]) -> None:
    for name in COMMANDS:
        with pytest.raises(SystemExit) as end:
            main([name, "--help"])
        assert end.value.code == 0
        assert f"calmstream {name}" in capsys.readouterr().out


def test_a_plan_says_what_it_chose_and_why(
    dictionary: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(planned(dictionary)) == 0
    shown = capsys.readouterr().out
    assert "epsilon 1" in shown
    assert "views of l" in shown
    assert "learnt from data" not in shown


def test_a_domain_learnt_from_data_is_warned_about(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "people.csv"
    table.write_text("a,b\nx,1\ny,2\nx,2\n")
    assert main(planned(table)) == 0
    assert "learnt from data" in capsys.readouterr().out


def test_the_printed_document_is_the_plan(
    dictionary: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(planned(dictionary, "--json", "--guarantee", "w-event:4")) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["guarantee"] == {"kind": "w-event", "windows": 4}
    assert document["domain"] == DOMAIN


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"epsilon": "0"}, "epsilon must lie between"),
        ({"epsilon": "-1"}, "epsilon must be"),
        ({"epsilon": "1000"}, "epsilon must lie between"),
        ({"epsilon": "much"}, "epsilon must be a decimal number"),
        ({"k": 4}, "k: expected 1 to 3"),
    ],
)
def test_an_impossible_request_is_refused(
    dictionary: Path, capsys: pytest.CaptureFixture[str], change: dict[str, object], words: str
) -> None:
    assert main(planned(dictionary, **change)) == 2  # type: ignore[arg-type]
    assert words in line(capsys)


def test_the_published_marginals_can_be_named(
    dictionary: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--marginal", "crashed,region", "--marginal", "theme", "--json"]
    assert main(planned(dictionary, *words)) == 0
    assert json.loads(capsys.readouterr().out)["marginals"] == [[0, 2], [1]]


def test_an_unknown_method_lists_the_known_ones(
    dictionary: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(planned(dictionary, "--method", "magic")) == 2
    assert "calm" in line(capsys)


def test_a_column_that_is_not_there_is_named(
    dictionary: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(planned(dictionary, "--columns", "region,weather")) == 2
    assert "weather" in line(capsys)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "No such file"),
        ("{", "not JSON"),
        ("{}", "missing field"),
        ('{"version": 9}', "reads plan version 1"),
    ],
)
def test_a_broken_plan_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str | None, words: str
) -> None:
    path = tmp_path / "plan.json"
    if content is not None:
        path.write_text(content)
    assert main(["topics", "--plan", str(path), "--bootstrap", "127.0.0.1:1"]) == 2
    text = line(capsys)
    assert words in text
    assert str(path) in text


def test_an_edited_plan_is_refused(plan: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = json.loads(plan.read_text())
    document["groups"][0]["views"][0]["share"] = 0
    plan.write_text(json.dumps(document))
    capsys.readouterr()
    assert main(["topics", "--plan", str(plan), "--bootstrap", "127.0.0.1:1"]) == 2
    assert "groups[0]" in line(capsys)


def test_a_missing_broker_is_named(plan: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert main(["topics", "--plan", str(plan), "--bootstrap", "127.0.0.1:1"]) == 1
    assert "127.0.0.1:1" in line(capsys)


def test_an_unpublished_marginal_is_refused(plan: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    words = ["watch", "--plan", str(plan), "--bootstrap", "127.0.0.1:1", "--marginal"]
    assert main([*words, "region,theme,crashed"]) == 2
    assert "not published" in line(capsys)
    assert main([*words, "weather"]) == 2
    assert "weather" in line(capsys)


def test_an_unknown_label_is_named_with_its_row(
    plan: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    records = tmp_path / "records.csv"
    records.write_text("region,theme,crashed\nEU,dark,no\nmoon,pink,no\n")
    capsys.readouterr()
    words = ["produce", "--plan", str(plan), "--bootstrap", "127.0.0.1:1", "--records"]
    assert main([*words, str(records)]) == 2
    text = line(capsys)
    assert "row 2" in text
    assert "pink" in text


def test_an_unknown_setting_is_refused(
    plan: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CALMSTREAM_CHEKPOINT_SECONDS", "5")
    capsys.readouterr()
    assert main(["consume", "--plan", str(plan), "--bootstrap", "127.0.0.1:1"]) == 2
    assert "CALMSTREAM_CHEKPOINT_SECONDS" in line(capsys)


def test_health_says_when_nobody_answers(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["health", "--http-port", "1"]) == 1
    assert "nobody answers" in line(capsys)


def test_an_evaluation_prints_one_object_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "people.csv"
    table.write_text("a,b,c\n" + "x,1,p\ny,2,q\nx,2,q\n" * 20)
    words = "--method calm,uniform --epsilon 0.5,1 --k 2 --users 1000 --repeats 2 --json"
    assert main(["evaluate", str(table), *words.split()]) == 0
    rows = [json.loads(row) for row in capsys.readouterr().out.splitlines()]
    asked = {(method, epsilon) for method in ("calm", "uniform") for epsilon in (0.5, 1)}
    assert {(row["method"], row["epsilon"]) for row in rows} == asked
    assert len(rows) == len(asked)
    fields = "dataset method epsilon k d n targets repeats tallies sse_mean sse_stderr tv_mean"
    for row in rows:
        assert set(fields.split()) | {"avd_mean", "collect_seconds", "estimate_seconds"} == set(row)
        assert row["dataset"] == "people"
        assert row["n"] == 1000
