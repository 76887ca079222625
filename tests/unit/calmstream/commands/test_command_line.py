"""Check what spares a person typing: defaults, suggestions, groups and completion."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from calmstream.cli import COMMANDS, GROUPS, parse
from tests.unit.calmstream.conftest import Command, Refused

QUERY = ["query", "--attributes", "a"]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_file_and_the_environment_give_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("calmstream.toml").write_text(
        'bootstrap = "file:1"\nplan = "file.json"\noutput-namespace = "again"\n'
    )
    args = parse(QUERY)
    assert (args.bootstrap, args.plan, args.output_namespace) == ("file:1", "file.json", "again")
    monkeypatch.setenv("CALMSTREAM_BOOTSTRAP", "environment:1")
    monkeypatch.setenv("CALMSTREAM_PLAN", "environment.json")
    args = parse([*QUERY, "--plan", "option.json"])
    assert (args.bootstrap, args.plan) == ("environment:1", "option.json")
    assert parse(["consume", "--plans", "folder"]).plans == "folder"
    assert parse(["central", "topics"]).plan == "environment.json"
    assert parse(["demo"]).kafka is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("bootstrap = 5", "calmstream.toml: bootstrap must be a text"),
        ("bootstap = 'a'", "calmstream.toml: no default 'bootstap'; there are bootstrap, plan,"),
        ("bootstrap =", "calmstream.toml: Invalid value (at end of document)"),
    ],
)
def test_a_wrong_file_is_refused(text: str, message: str, refused: Refused) -> None:
    Path("calmstream.toml").write_text(text)
    assert message in refused(*QUERY)


@pytest.mark.parametrize("name", ["query", "consume", "keys"])
def test_a_mistyped_variable_is_refused_by_every_command(
    name: str, refused: Refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CALMSTREAM_HTTP_PORT", "9464")
    monkeypatch.setenv("CALMSTREAM_MIN_BATCHES", "5")
    words = {
        "query": [*QUERY[1:], "--plan", "p", "--bootstrap", "b"],
        "keys": ["new", "--out", "k"],
    }
    assert refused(name, *words.get(name, ["--plan", "p", "--bootstrap", "b"])) == (
        "calmstream: unknown environment variable CALMSTREAM_MIN_BATCHES; "
        "did you mean CALMSTREAM_MIN_BATCH?"
    )
    assert not Path("k").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["qeury"], "unknown command 'qeury'; did you mean query? (see calmstream --help)"),
        (["qqqqq"], "unknown command 'qqqqq' (see calmstream --help)"),
        (
            ["query", "--atributes=a"],
            "unknown option --atributes; did you mean --attributes? (see calmstream query --help)",
        ),
        (
            ["keys", "certify", "--rot", "a"],
            "unknown option --rot; did you mean --root? (see calmstream keys certify --help)",
        ),
    ],
)
def test_the_word_that_was_meant_is_suggested(
    words: list[str], message: str, refused: Refused
) -> None:
    assert refused(*words) == f"calmstream: {message}"


def test_the_help_has_all_commands_in_groups_at_80_columns(command: Command) -> None:
    shown = command("--help").out.splitlines()
    assert all(len(line) <= 80 for line in shown)
    assert [line[:-1] for line in shown if line[:-1] in GROUPS] == list(GROUPS)
    assert [line.split()[0] for line in shown if line.startswith("  ")][-len(COMMANDS) :] == list(
        COMMANDS
    )


def completed(line: str, path: Path) -> list[str]:
    """Return what the shell offers after a line."""
    environment = {
        **os.environ,
        "_ARGCOMPLETE": "1",
        "_ARGCOMPLETE_IFS": "\n",
        "_ARGCOMPLETE_STDOUT_FILENAME": str(path),
        "COMP_LINE": line,
        "COMP_POINT": str(len(line)),
        "COMP_TYPE": "9",
    }
    words = [sys.executable, "-m", "calmstream"]
    subprocess.run(words, env=environment, timeout=60, check=True)
    return [word.strip() for word in path.read_text().split("\n")]


def test_a_shell_completes_commands_options_and_values(tmp_path: Path, command: Command) -> None:
    assert completed("calmstream qu", tmp_path / "found") == ["query"]
    assert completed("calmstream query --att", tmp_path / "found") == ["--attributes"]
    assert "parquet" in completed("calmstream export --format ", tmp_path / "found")
    for shell in ("bash", "zsh", "fish"):
        assert "calmstream" in command("completion", shell).out
