from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

import pytest

from calmstream.cli import COMMANDS, GROUPS, main, parse
from calmstream.estimators.plan.document import read_plan
from calmstream.producer.device import read_plan as device_plan
from tests.support.plans import CRASHES
from tests.support.runs import python, ran
from tests.unit.calmstream.conftest import Command, Refused

QUERY = ["query", "--attributes", "a"]


@pytest.fixture
def plan(dictionary: Path, tmp_path: Path) -> Path:
    path = tmp_path / "plan.json"
    assert main(planned(dictionary, "--out", path)) == 0
    return path


def planned(data: object, *more: object) -> list[str]:
    start = ["plan", data, "--epsilon", "1", "--users", "100,000", "--k", 2, *more]
    return [str(word) for word in start]


def test_a_plan_that_devices_refuse_is_warned_about(
    dictionary: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device_plan, "MAX_VIEWS", 1)
    [_, warning] = json.loads(command(*planned(dictionary, "--json")).out)["warnings"]
    assert re.fullmatch(r"Devices refuse it: [\d,]+ views; a device reads 1", warning)


def test_the_printed_document_is_the_plan(dictionary: Path, command: Command) -> None:
    argv = planned(dictionary, "--json", "--guarantee", "w-event:4", "--lifetime", "1d")
    output = json.loads(command(*argv).out)
    assert set(output) == {"loss", "plan", "precision", "read", "warnings"}
    assert output["warnings"] == []
    document = output["plan"]
    assert read_plan(json.dumps(document).encode()).users == 100_000
    assert document["guarantee"] == {"kind": "w-event", "windows": 4}
    assert document["domain"] == CRASHES


@pytest.mark.parametrize(
    ("words", "variables", "message"),
    [
        (["consume", "--http-port", "70000"], {}, "--http-port: "),
        (["consume"], {"HTTP_PORT": "70000"}, "CALMSTREAM_HTTP_PORT: "),
        (["consume"], {"SESSION_SECONDS": "long"}, "CALMSTREAM_SESSION_SECONDS: "),
        (["produce", "--records", "x", "--rate", "0"], {}, "--rate: expected a number above 0"),
        (["produce", "--records", "x", "--rate", "inf"], {}, "--rate: expected a number above 0"),
    ],
)
def test_an_error_names_a_wrong_setting_as_the_user_gave_it(
    plan: Path,
    words: list[str],
    variables: dict[str, str],
    message: str,
    refused: Refused,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(f"CALMSTREAM_{name}", value)
    line = refused(*words, "--plan", plan, "--bootstrap", "127.0.0.1:1")
    assert line.startswith(f"calmstream: {message}")


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (MemoryError("Unable to allocate 745 GiB"), "out of memory: Unable to allocate 745 GiB"),
        (OSError(28, "No space left on device"), "No space left on device"),
        (KeyError("x\ny"), "internal error, KeyError"),
    ],
)
def test_an_unexpected_error_is_one_line(
    error: Exception,
    message: str,
    dictionary: Path,
    refused: Refused,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.delenv("CALMSTREAM_DEBUG", raising=False)
    monkeypatch.setattr("calmstream.commands.plan.planning.draft", fail)
    assert message in refused(*planned(dictionary), code=1)
    monkeypatch.setenv("CALMSTREAM_DEBUG", "1")
    with pytest.raises(type(error)):
        main(planned(dictionary))


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("form", ["--json", "--name=shown"])
def test_output_that_cannot_be_written_is_a_failure(dictionary: Path, form: str) -> None:
    full = ("bash", "-c", '"$@" > /dev/full', "bash", sys.executable, "-m", "calmstream")
    done = ran(*full, *planned(dictionary, form), code=1)
    assert done.stderr == "calmstream: No space left on device\n"


@pytest.mark.parametrize("model", ["local", "central"])
def test_printed_warnings_are_also_in_the_document(
    tmp_path: Path, command: Command, model: str
) -> None:
    table = tmp_path / "people.csv"
    table.write_text(
        "\n".join(["id,[a],b,c", *(f"{i},{i % 2},{i % 3},{i % 2}" for i in range(90))])
    )
    start = ["plan", "--users", "100"] if model == "local" else ["central", "plan"]
    argv = [*start, table, "--k", "3", "--epsilon", "0.1", "--start", "1000"]
    code, out, err = command(*argv, "--json")
    assert (code, err) == (0, "")
    warnings = json.loads(out)["warnings"]
    words = {
        "local": [
            "labels were learnt from data",
            "id (ids: 90 values in 90 records)",
            "has expired already",
            "once, over several windows",
            "No table of 3 attributes is published",
        ],
        "central": ["this is not local privacy", "has expired already"],
    }[model]
    assert len(warnings) == len(words)
    for warning, text in zip(warnings, words, strict=True):
        assert text in warning
    shown = command(*argv).out.splitlines()
    assert [line for line in shown if line in warnings] == warnings


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="threads are counted in /proc")
def test_matrix_products_use_one_thread_so_that_tables_do_not_depend_on_processors() -> None:
    program = """
import contextlib, os
from calmstream.cli import COMMANDS, GROUPS, main, parse
with contextlib.suppress(SystemExit):
    main(["plan", "--method", "list"])
import numpy
numpy.ones((800, 800)) @ numpy.ones((800, 800))
raise SystemExit(len(os.listdir("/proc/self/task")) - 1)
"""
    python("-c", program, env={**os.environ, "OPENBLAS_NUM_THREADS": "2"})


@pytest.fixture
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("_elsewhere")
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


@pytest.mark.usefixtures("_elsewhere")
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


@pytest.mark.usefixtures("_elsewhere")
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
    ("words", "message", "of"),
    [
        ("qeury", "unknown command 'qeury'; did you mean query?", ""),
        ("qqqqq", "unknown command 'qqqqq'", ""),
        ("", "the following arguments are required: COMMAND", ""),
        (
            "plan x --guarantee w-event:x",
            "--guarantee: expected once or w-event:W, got 'w-event:x'",
            " plan",
        ),
        ("query --atributes=a", "unknown option --atributes; did you mean --attributes?", " query"),
        ("keys certify --rot a", "unknown option --rot; did you mean --root?", " keys certify"),
    ],
)
def test_wrong_words_are_named_in_one_line_with_what_was_meant(
    words: str, message: str, of: str, refused: Refused
) -> None:
    assert refused(*words.split()) == f"calmstream: {message} (see calmstream{of} --help)"


def test_the_help_has_all_commands_in_groups_at_80_columns(command: Command) -> None:
    shown = command("--help").out.splitlines()
    assert all(len(line) <= 80 for line in shown)
    assert [line[:-1] for line in shown if line[:-1] in GROUPS] == list(GROUPS)
    assert [line.split()[0] for line in shown if line.startswith("  ")][-len(COMMANDS) :] == list(
        COMMANDS
    )


def completed(line: str, path: Path) -> list[str]:
    environment = {
        **os.environ,
        "_ARGCOMPLETE": "1",
        "_ARGCOMPLETE_IFS": "\n",
        "_ARGCOMPLETE_STDOUT_FILENAME": str(path),
        "COMP_LINE": line,
        "COMP_POINT": str(len(line)),
        "COMP_TYPE": "9",
    }
    python("-m", "calmstream", env=environment)
    return [word.strip() for word in path.read_text().split("\n")]


def test_a_shell_completes_commands_options_and_values(tmp_path: Path, command: Command) -> None:
    assert completed("calmstream qu", tmp_path / "found") == ["query"]
    assert completed("calmstream query --att", tmp_path / "found") == ["--attributes"]
    assert "parquet" in completed("calmstream export --format ", tmp_path / "found")
    for shell in ("bash", "zsh", "fish"):
        assert "calmstream" in command("completion", shell).out
