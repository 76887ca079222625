"""Check the options of ``calmstream plan`` that carry more than one thing."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from calmstream.cli import main


def planned(data: Path, words: str, capsys: pytest.CaptureFixture[str]) -> Any:
    given = shlex.split(f"--users 1000 --json {words}")
    try:
        code = main(["plan", str(data), *given])
    except SystemExit as end:
        code = int(end.code or 0)
    out, err = capsys.readouterr()
    return err if code else json.loads(out)["plan"]


def test_options_carry_what_belongs_to_them(
    dictionary: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old, method = "a" * 32, """'noise-aware:{"prior_sizes": [0.5, 0.1, 0, 0]}'"""
    words = f"--epsilon 1:2.5 --lineage new,{old} --window 1d:final --method {method}"
    made = planned(dictionary, words, capsys)
    assert (made["epsilon"], made["lineage_epsilon"], made["k"]) == ("1", "2.5", 2)
    assert made["continues"] == [old] != [made["lineage"]]
    assert (made["window"], made["early"]) == (86_400, False)
    assert made["method"]["parameters"]["prior_sizes"] == ["0.5", "0.1", 0, 0]
    for wrong, said in (
        ("--epsilon 1:0.5", "lineage_epsilon 0.5 is below epsilon 1"),
        ("--epsilon 1 --window 1d:early", "expected a duration, or 1d:final"),
        ("--epsilon 1 --method calm:[1]", "expected a JSON object"),
    ):
        assert said in " ".join(planned(dictionary, wrong, capsys).split())
