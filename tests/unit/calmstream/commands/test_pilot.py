"""Check what ``calmstream plan --pilot`` refuses before it connects to a broker."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from calmstream.cli import main

DOMAIN = [{"name": name, "labels": ["0", "1"]} for name in ("a", "b", "c")]


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "domain.json").write_bytes(orjson.dumps(DOMAIN))
    (tmp_path / "other.json").write_bytes(orjson.dumps(DOMAIN[:2]))
    argv = ["plan", str(tmp_path / "domain.json"), "--method", "rr-ind-joint", "--epsilon", "4"]
    out = str(tmp_path / "pilot.json")
    assert main([*argv, "--users", "100", "--k", "2", "--out", out]) == 0
    return tmp_path


@pytest.mark.parametrize(
    ("data", "options", "message"),
    [
        ("domain.json", [], "--pilot: CALMSTREAM_BOOTSTRAP, or bootstrap in calmstream.toml"),
        ("other.json", [], "use the pilot's file as DATA too"),
        ("pilot.json", ["--lineage", "0" * 32], "a plan after a pilot has the pilot's lineage"),
    ],
)
def test_refusals(
    files: Path,
    data: str,
    options: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    capsys.readouterr()
    argv = ["plan", str(files / data), "--method", "rr-clusters", "--epsilon", "4", "--users", "9"]
    assert main([*argv, "--k", "2", "--pilot", str(files / "pilot.json"), *options]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
