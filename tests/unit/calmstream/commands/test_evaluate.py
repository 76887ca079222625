from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import orjson
import pytest

from tests.unit.calmstream.conftest import Command, Refused


@pytest.fixture
def alike(tmp_path: Path) -> Path:
    path = tmp_path / "people.csv"
    path.write_text("a,b,c\n" + "\n".join(f"{i % 5},{i // 5 % 5},{i % 2}" for i in range(100)))
    return path


def evaluated(data: Path, methods: str, *more: str) -> list[str]:
    words = ["--method", methods, "--epsilon", "1", "--k", "2", "--users", "300", "--repeats", "2"]
    return ["evaluate", str(data), *words, "--tallies", "law", *more]


def test_a_method_that_is_worse_than_knowing_nothing_is_named(
    alike: Path, command: Command
) -> None:
    for more in ((), ("--json",)):
        messages = command(*evaluated(alike, "inp-ps,uniform", *more)).err.splitlines()
        (warning,) = (text for text in messages if "the uniform table is better" in text)
        assert warning.startswith("inp-ps, epsilon 1: its sse_mean, ")


def test_raw_tables_are_marked_as_raw_beside_corrected_ones(alike: Path, command: Command) -> None:
    shown = command(*evaluated(alike, "calm,rr-ind-joint")).out
    rows = [text for text in shown.splitlines() if text.startswith(("calm ", "rr-ind-joint "))]
    assert ["(raw)" in row for row in rows] == [False, True]
    assert float(rows[1].split()[6]) > 1, "a total variation that no distribution has"
    assert "(raw): published without the correction" in shown
    assert "TV can exceed 1" in shown


def test_numbers_of_a_data_dictionary_are_measured_in_ranges(
    tmp_path: Path, command: Command
) -> None:
    people, dictionary = tmp_path / "people.csv", tmp_path / "domain.json"
    people.write_text("ms,apps\n" + "\n".join(f"{i % 37},mail|x" for i in range(100)))
    number = {"name": "ms", "kind": "number", "edges": [0, 1.5, 30], "rounding": "grid"}
    choice = {"name": "apps", "kind": "choices", "options": ["mail", "maps"]}
    dictionary.write_text(json.dumps([number, choice]))
    words = evaluated(people, "calm", "--domain", str(dictionary), "--ranges", "9")
    line = json.loads(command(*words, "--json").out)
    assert line["d"] == 3
    for name in ("range_mse", "wasserstein", "mean_error", "median_error"):
        assert 0.0 <= line[name] < 10.0
    assert "ranges" not in line
    assert "wasserstein" in command(*words).out


DAYS = 24


@pytest.fixture(scope="module")
def stream(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    dice, lines = np.random.default_rng(3), ["when,theme,region"]
    for day in range(DAYS):
        for theme in dice.random(400) < (0.3 if day < 16 else 0.6):
            moment = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=day, minutes=5)
            region = "EU" if dice.random() < (0.7 if theme else 0.3) else "US"
            lines.append(f"{moment:%Y-%m-%dT%H:%M},{'dark' if theme else 'light'},{region}")
    path = tmp_path_factory.mktemp("stream") / "days.csv"
    path.write_text("\n".join(lines))
    given = ["--method", "calm", "--epsilon", "1", "--k", "2", "--users", "2000", "--stream"]
    return ["evaluate", str(path), *given]


def test_now_is_nearer_than_the_final_and_the_total(stream: list[str], command: Command) -> None:
    found = orjson.loads(command(*stream, "--json").out)
    assert (found["windows"], found["measured"]) == (DAYS, 18)
    assert found["current"] < 0.6 * found["final"]
    assert found["current"] < found["total"]


def test_people_see_a_table_of_a_stream(stream: list[str], command: Command) -> None:
    shown = command(*stream, "--window", "2d", "--missing", "drop")
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
        (["--seed=-1"], "the seed not negative"),
    ],
)
def test_bad_streams_are_refused(
    stream: list[str], more: list[str], why: str, command: Command
) -> None:
    done = command(*stream, *more)
    assert done.code == 2
    assert why in done.err.replace("\n", " ")


@pytest.mark.parametrize(
    ("form", "option", "why"),
    [
        ("--stream", "--ranges=9", "--ranges has no effect with --stream"),
        ("--stream", "--tallies=devices", "--tallies has no effect with --stream"),
        ("--stream", "--repeats=5", "--repeats has no effect with --stream"),
        ("--synthetic", "--pilot=0.1", "--pilot has no effect with --synthetic"),
        ("--synthetic", "--window=1d", "--window has no effect with --synthetic"),
        ("--json", "--time=a", "--time has no effect without --stream"),
        ("--stream", "--synthetic", "--synthetic: not allowed with argument --stream"),
    ],
)
def test_options_without_effect_are_refused(
    form: str, option: str, why: str, refused: Refused
) -> None:
    needed = ["--method", "calm", "--epsilon", "1", "--k", "2", "--users", "300"]
    assert why in refused("evaluate", "no-such-table", *needed, form, option)


@pytest.fixture
def words(tmp_path: Path) -> list[str]:
    random = np.random.default_rng(1)
    texts = random.choice(["null pointer", "timeout", ""], size=2000, p=[0.3, 0.2, 0.5])
    table, dictionary = tmp_path / "t.csv", tmp_path / "d.json"
    rows = zip(random.choice(["41", "42"], size=2000), texts, strict=True)
    table.write_text("version,crash\n" + "".join(f"{v},{w}\n" for v, w in rows))
    version = {"name": "version", "labels": ["41", "42"]}
    crash = {"name": "crash", "kind": "hashed", "buckets": 32, "hashes": 8}
    dictionary.write_bytes(orjson.dumps([version, crash]))
    return [
        *("evaluate", str(table), "--domain", str(dictionary), "--method", "calm", "--k", "1"),
        *("--epsilon", "4", "--users", "20000", "--json"),
    ]


def test_tables_and_words_are_measured(words: list[str], command: Command) -> None:
    tables, found = map(orjson.loads, command(*words, "--repeats", "1").out.splitlines())
    assert tables["d"] == 1
    assert (found["attribute"], found["words"], found["seen"], found["false"]) == ("crash", 2, 2, 0)
    assert found["points"] < 3
    assert found["coverage"] >= 0.5


@pytest.mark.parametrize(
    "more", [["--tallies", "law"], ["--stream"], ["--synthetic"], ["--k", "2"]]
)
def test_what_words_do_not_go_with_is_said(
    words: list[str], more: list[str], command: Command
) -> None:
    done = command(*words, *more)
    assert done.code != 0
    assert "hashed attributes" in done.err
