"""Check what the operator's commands print, and what they refuse, without a broker."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from calmstream.cli import main
from calmstream.commands.inspect import document, show
from calmstream.consumer.operations.inspect import inspect
from tests.support.tally import batch_id, small_plan
from tests.support.tally_bench import Stage


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    path = tmp_path / "plan.json"
    path.write_bytes(small_plan(groups=2).to_bytes())
    return path


def test_the_access_table_is_printed(plan: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["acl", "--plan", str(plan), "--namespace", "ns", "--json"]) == 0
    rules = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    roles = {"edge", "tally", "publisher", "subscriber", "analyst", "observer", "operator"}
    assert {r["role"] for r in rules} == roles
    edge = [r for r in rules if r["role"] == "edge"]
    assert [(r["operation"], r["resource"], r["pattern"]) for r in edge] == [
        ("WRITE", "topic", "prefixed")
    ]
    assert edge[0]["name"].endswith(".reports.g")
    assert main(["acl", "--plan", str(plan), "--role", "subscriber"]) == 0
    assert "snapshots" in capsys.readouterr().out


def test_nothing_is_retired_without_the_right_words(
    plan: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("yes\n"))
    assert main(["retire", "--plan", str(plan), "--bootstrap", "127.0.0.1:1"]) == 2
    assert "nothing was done" in capsys.readouterr().err


def test_an_inspection_is_shown_and_written() -> None:
    stage = Stage(small_plan(groups=2))
    worker = stage.worker()
    stage.turns(worker, count=1)
    for _ in range(60):
        stage.batch(0, [1])
    stage.send(batch_id(1), b"{")
    stage.turns(worker)
    stage.topics.trim({stage.input(): 10})
    inspection = inspect(stage.plan, stage.broker, stage.names, stage.clock)
    written = document(stage.plan, inspection)
    written = json.loads(json.dumps(written))
    assert written["rejected"] == {"undecodable": 1}
    assert written["partitions"][0]["reports"] == 60
    assert written["partitions"][1]["clock"] is None
    shown = io.StringIO()
    show(stage.plan, inspection, Console(file=shown, width=160))
    text = shown.getvalue()
    for words in ("undecodable 1", "the log starts at 10, needed from 0"):
        assert words in text


@pytest.mark.parametrize("form", ["", "--json"])
def test_a_topic_with_its_senders_times_is_named_and_explained(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stage = Stage(small_plan(groups=3))
    (tmp_path / "plan.json").write_bytes(stage.plan.to_bytes())
    monkeypatch.setattr("calmstream.commands.inspect.kafka", lambda _: stage.broker)
    monkeypatch.setattr(stage.broker, "close", lambda: None)
    words = ["inspect", "--plan", str(tmp_path / "plan.json"), "--bootstrap", "x:1"]
    words += ["--namespace", "test", *form.split()]
    assert main(words) == 0
    assert "CreateTime" not in capsys.readouterr().out
    wrong = stage.names.reports(1)
    stage.topics.alter([wrong], {"message.timestamp.type": "CreateTime"})
    assert main(words) == 1
    output = capsys.readouterr().out
    assert f"topic {wrong} has message.timestamp.type=CreateTime, not LogAppendTime" in output
    if form:
        assert len(json.loads(output)["faults"]) == 1
