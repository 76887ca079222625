"""Shared by the tests of the command line: files, commands to run, and what is printed."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from calmstream.cli import main
from calmstream.terminal import Console
from tests.support.plans import CRASHES


class Done(NamedTuple):
    code: int
    out: str
    err: str


Command = Callable[..., Done]
Refused = Callable[..., str]
Over = Callable[[Any, Any], tuple[object, ...]]


def printed(*shown: Any, **console: Any) -> str:
    """Return what a console prints without colours; by default 80 columns, and no terminal."""
    out = io.StringIO()
    Console(**{"file": out, "width": 80, "color_system": None} | console).print(*shown)
    return out.getvalue()


@pytest.fixture
def over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Over:
    """Let commands reach a broker in memory; return the options that name a plan on it."""

    def reached(plan: Any, broker: Any) -> tuple[object, ...]:
        monkeypatch.setattr("calmstream.connect.kafka", lambda _: broker)
        monkeypatch.setattr(broker, "close", lambda: None, raising=False)
        path = tmp_path / "plan.json"
        path.write_bytes(plan.to_bytes())
        return ("--plan", path, "--bootstrap", "x:1", "--namespace", "test")

    return reached


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
