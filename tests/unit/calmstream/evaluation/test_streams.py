"""``evaluate --stream``: what is known now, measured on a table whose records have a time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import orjson
import pytest

from calmstream.cli import main

DAYS = 24


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a table of 24 days of 400 records, which change on day 16."""
    dice, lines = np.random.default_rng(3), ["when,theme,region"]
    for day in range(DAYS):
        for theme in dice.random(400) < (0.3 if day < 16 else 0.6):
            moment = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=day, minutes=5)
            region = "EU" if dice.random() < (0.7 if theme else 0.3) else "US"
            lines.append(f"{moment:%Y-%m-%dT%H:%M},{'dark' if theme else 'light'},{region}")
    path = tmp_path_factory.mktemp("stream") / "days.csv"
    path.write_text("\n".join(lines))
    return path


def words(table: Path, *more: str) -> list[str]:
    given = ["--method", "calm", "--epsilon", "1", "--k", "2", "--users", "2000", "--stream"]
    return ["evaluate", str(table), *given, *more]


def test_now_is_nearer_than_the_final_and_the_total(
    table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words(table, "--json")) == 0
    found = orjson.loads(capsys.readouterr().out)
    assert (found["windows"], found["measured"]) == (DAYS, 18)
    assert found["current"] < 0.6 * found["final"]
    assert found["current"] < found["total"]


def test_people_see_a_table(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words(table, "--window", "2d")) == 0
    shown = capsys.readouterr()
    assert "12 windows, 9 of them compared" in shown.out
    assert "current" in shown.out
    assert "times: when" in shown.err


@pytest.mark.parametrize(
    ("more", "why"),
    [
        (["--time", "theme"], "which are no times"),
        (["--time", "hour"], "no column has a time in every cell"),
        (["--window", "60d"], "all records are in one window"),
        (["--window", "1s"], "at most 100,000"),
    ],
)
def test_bad_streams_are_refused(
    table: Path, more: list[str], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words(table, *more)) == 2
    assert why in capsys.readouterr().err.replace("\n", " ")
