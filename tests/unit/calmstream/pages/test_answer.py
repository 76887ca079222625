from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from calmstream.consumer.read.formats import FORMATS, harmless
from calmstream.consumer.read.history import Answer
from calmstream.consumer.read.ranges import Windows
from calmstream.pages.answer import show
from calmstream.terminal import Console
from tests.support.publisher import START, Bench, published_plan, work
from tests.unit.calmstream.conftest import Command, Over

PLAN = published_plan()
ANSWER = Answer(
    attributes=("a1", "a0"),
    labels=(("0", "=1"), ("x", "y", "[z]")),
    table=np.arange(6).reshape(2, 3) / 15,
    stderr=np.full((2, 3), 0.01),
    flags=("covered", "noise"),
    windows=(Windows(0, 2, total=True),),
    reports=1234,
    revision=(1, 2, 3, 4),
    plan=PLAN,
)


def test_json_is_one_object_with_all_that_must_be_known() -> None:
    text = FORMATS["json"](ANSWER)
    assert text.count(b"\n") == 1
    found = json.loads(text)
    assert found == {
        "plan": PLAN.digest,
        "attributes": ["a1", "a0"],
        "labels": [["0", "=1"], ["x", "y", "[z]"]],
        "table": pytest.approx([n / 15 for n in range(6)]),
        "stderr": [0.01] * 6,
        "flags": ["covered", "noise"],
        "windows": [
            {"first": 0, "last": 2, "total": True, "current": False}
            | {"start": START, "end": START + 30}
        ],
        "reports": 1234,
        "revision": [1, 2, 3, 4],
    }


def test_csv_has_a_line_per_cell_that_no_spreadsheet_executes() -> None:
    rows = list(csv.reader(io.StringIO(FORMATS["csv"](ANSWER).decode())))
    assert rows[0] == ["a1", "a0", "value", "stderr", "flags"]
    assert len(rows) == 7
    assert rows[5][:2] == ["'=1", "y"]
    assert float(rows[5][2]) == pytest.approx(4 / 15)
    assert rows[1][4] == "covered noise"
    for text in ("=1+1", "+1", "-1", "@x", "\tx", "\rx"):
        assert harmless(text) == f"'{text}"
    assert harmless("a=1") == "a=1"


def test_a_table_for_people_says_what_it_is_about() -> None:
    out = io.StringIO()
    show(Console(file=out, width=80), ANSWER, ["region=EU"])
    text = out.getvalue()
    assert max(map(len, text.splitlines())) <= 80
    about = "all windows through 2 (2023-11-14 22:13:20 to 22:13:50 UTC), 1,234 reports"
    assert f"{about}, where region=EU · covered, noise" in " ".join(text.split())
    assert "[z]" in text
    assert "26.67" in text
    assert "1.96" in text


@pytest.fixture
def asked(over: Over) -> tuple[object, ...]:
    bench = Bench(published_plan(groups=3))
    bench.close_all()
    bench.put_all()
    work(bench.publication())
    return ("query", *over(bench.plan, bench.broker))


def test_the_command_prints_one_object(asked: tuple[object, ...], command: Command) -> None:
    words = ["--attributes", "a2,a0", "--windows", "1..2", "--given", "a0", "--format", "json"]
    found = json.loads(command(*asked, *words).out)
    assert found["attributes"] == ["a0", "a2"]
    assert np.array(found["table"]).reshape(2, 2).sum(axis=1) == pytest.approx([1, 1])
    assert found["windows"][0] == {
        "first": 1, "last": 2, "total": False, "current": False,
        "start": START + 10, "end": START + 30,
    }  # fmt: skip
    assert "conditional" in found["flags"]


def test_where_leaves_the_people_with_these_labels(
    asked: tuple[object, ...], tmp_path: Path, command: Command
) -> None:
    tables = []
    for words in (
        ["--attributes", "a0", "--attributes", "a2", "--given", "a0"],
        ["--attributes", '["a2"]', "--where", "a0=1"],
    ):
        out = tmp_path / "answer.json"
        assert command(*asked, *words, "--out", out).code == 0
        tables.append(json.loads(out.read_text()))
    assert tables[1]["attributes"] == ["a2"]
    assert tables[1]["table"] == pytest.approx(tables[0]["table"][2:])
    assert tables[1]["stderr"] == pytest.approx(tables[0]["stderr"][2:])
    where = ("--attributes", "a2", "--where", "a0=1")
    assert command(*asked, *where, "--out", f"{out}.parquet").code == 0
    assert pq.read_table(f"{out}.parquet")["value"].to_pylist() == tables[1]["table"]
    assert ", where a0=1" in command(*asked, *where).out


def test_one_command_says_a_share_and_its_change(
    asked: tuple[object, ...], command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    words = ["--attributes", "a2", "--where", "a0=1", "--windows", "latest"]
    found = {}
    for minus in ([], ["--minus", "previous"], ["--minus", "1"]):
        done = command(*asked, *words, *minus, "--format", "json")
        found["".join(minus)] = json.loads(done.out)
    assert found["--minusprevious"] == found["--minus1"]
    shown = command(*asked, *words, "--minus", "previous").out.splitlines()
    assert "change: points since window 1" in "\n".join(shown)
    row = next(line.split() for line in shown if line.startswith("1 "))
    now, change = found[""], found["--minusprevious"]
    values = [now["table"][1], 1.96 * now["stderr"][1]]
    values += [change["table"][1], 1.96 * change["stderr"][1]]
    assert [float(text) for text in row[1:]] == pytest.approx([100 * x for x in values], abs=0.006)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--attributes", "b"], "no attribute 'b'"),
        (["--attributes", "a0", "--given", "a0"], "given: name some, not all"),
        (["--attributes", "a0", "--where", "a0=1"], "where: an attribute must be left"),
        (
            ["--attributes", "a0,a1", "--given", "a1", "--where", "a1=1"],
            "where: 'a1' is given as well; leave it out of one of them",
        ),
        (["--attributes", "a0", "--where", "a1"], "expected"),
        (["--attributes", "a0", "--where", ""], "--where '': expected ATTRIBUTE=LABELS"),
        (["--attributes", "a0", "--where", "a1=1", "--where", "a1=0"], "'a1' is grouped twice"),
        (["--attributes", "a0,a1", "--where", "a1=1", "--group", "a1=0"], "'a1' is grouped twice"),
        (["--attributes", "a0", "--where", "a1=7"], "no label '7'"),
        (["--attributes", "a0", "--windows", "never"], "expected current, total, latest"),
        (["--attributes", "a0", "--windows", "0", "--minus", "0"], "overlap"),
    ],
)
def test_a_bad_question_is_one_line_and_prints_nothing(
    asked: tuple[object, ...], words: list[str], why: str, command: Command
) -> None:
    code, out, err = command(*asked, *words)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert why in err
