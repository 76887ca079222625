"""``evaluate`` of a table with texts: its tables, and how well its words are found."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import orjson
import pytest

from calmstream.cli import main

DICTIONARY = [
    {"name": "version", "labels": ["41", "42"]},
    {"name": "crash", "kind": "hashed", "buckets": 32, "hashes": 8},
]


@pytest.fixture
def asked(tmp_path: Path) -> list[str]:
    random = np.random.default_rng(1)
    words = random.choice(["null pointer", "timeout", ""], size=2000, p=[0.3, 0.2, 0.5])
    table, dictionary = tmp_path / "t.csv", tmp_path / "d.json"
    rows = zip(random.choice(["41", "42"], size=2000), words, strict=True)
    table.write_text("version,crash\n" + "".join(f"{v},{w}\n" for v, w in rows))
    dictionary.write_bytes(orjson.dumps(DICTIONARY))
    return [
        *("evaluate", str(table), "--domain", str(dictionary), "--method", "calm", "--k", "1"),
        *("--epsilon", "4", "--users", "20000", "--repeats", "1", "--json"),
    ]


def test_tables_and_words_are_measured(
    asked: list[str], capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert main(asked) == 0
    tables, words = map(orjson.loads, capfdbinary.readouterr().out.splitlines())
    assert tables["d"] == 1
    assert (words["attribute"], words["words"], words["seen"], words["false"]) == ("crash", 2, 2, 0)
    assert words["points"] < 3
    assert words["coverage"] >= 0.5


@pytest.mark.parametrize(
    "more",
    [["--tallies", "law"], ["--stream"], ["--synthetic"], ["--missing", "drop"], ["--k", "2"]],
)
def test_what_words_do_not_go_with_is_said(
    asked: list[str], more: list[str], capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert main([*asked, *more]) != 0
    assert b"hashed attributes" in capfdbinary.readouterr().err
