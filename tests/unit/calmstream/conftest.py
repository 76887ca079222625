"""Shared by the tests of the command line: a data dictionary in a file, and commands to run."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from calmstream.cli import main
from tests.support.plans import CRASHES


class Done(NamedTuple):
    """The exit code of a command, and what it printed."""

    code: int
    out: str
    err: str


Command = Callable[..., Done]
Refused = Callable[..., str]


@pytest.fixture
def dictionary(tmp_path: Path) -> Path:
    path = tmp_path / "domain.json"
    path.write_text(json.dumps(CRASHES))
    return path


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Command:
    def run(*words: object) -> Done:
        capsys.readouterr()
        try:
            code = main(list(map(str, words)))
        except SystemExit as end:  # from argparse
            code = int(end.code or 0)
        return Done(code, *capsys.readouterr())

    return run


@pytest.fixture
def refused(command: Command) -> Refused:
    """Run a command that is refused; return its one line on stderr."""

    def run(*words: object, code: int = 2) -> str:
        done = command(*words)
        assert done.code == code, done
        assert done.err.startswith("calmstream: ")
        assert done.err.count("\n") == 1
        return done.err.strip()

    return run
