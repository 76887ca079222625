from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from calmstream.commands.inspect import document, show
from calmstream.consumer.operations.inspect import inspect
from calmstream.producer.simulation.produce import ProduceSummary
from tests.support.faulty_broker import FaultyBroker
from tests.support.publisher import published_plan
from tests.support.tally import batch_id, small_plan
from tests.support.tally_bench import Stage
from tests.unit.calmstream.conftest import Command, Over

NOBODY = ("--bootstrap", "127.0.0.1:1")


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    path = tmp_path / "plan.json"
    path.write_bytes(small_plan(groups=2).to_bytes())
    return path


def test_the_access_table_is_printed(plan: Path, command: Command) -> None:
    shown = command("acl", "--plan", plan, "--namespace", "ns", "--json").out
    rules = [json.loads(line) for line in shown.splitlines()]
    roles = {"edge", "tally", "publisher", "subscriber", "analyst", "observer", "operator"}
    assert {r["role"] for r in rules} == roles
    (edge,) = [r for r in rules if r["role"] == "edge"]
    assert (edge["operation"], edge["resource"], edge["pattern"]) == ("WRITE", "topic", "prefixed")
    assert edge["name"].endswith(".reports.g")
    assert "snapshots" in command("acl", "--plan", plan, "--role", "subscriber").out


def test_nothing_is_retired_without_the_right_words(
    plan: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("yes\n"))
    done = command("retire", "--plan", plan, *NOBODY)
    assert done.code == 2
    assert "nothing was done" in done.err


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
    written = json.loads(json.dumps(document(stage.plan, inspection)))
    assert written["rejected"] == {"undecodable": 1}
    assert written["partitions"][0]["reports"] == 60
    assert written["partitions"][1]["clock"] is None
    shown = io.StringIO()
    show(stage.plan, inspection, Console(file=shown, width=160))
    for words in ("undecodable 1", "the log starts at 10, needed from 0"):
        assert words in shown.getvalue()


@pytest.mark.parametrize("form", ["", "--json"])
def test_a_topic_with_its_senders_times_is_named_and_explained(
    form: str, over: Over, command: Command
) -> None:
    stage = Stage(small_plan(groups=3))
    words = ("inspect", *over(stage.plan, stage.broker), *form.split())
    before = command(*words)
    assert before.code == 0
    assert "CreateTime" not in before.out
    wrong = stage.names.reports(1)
    stage.topics.alter([wrong], {"message.timestamp.type": "CreateTime"})
    after = command(*words)
    assert after.code == 1
    said = f"topic {wrong} has message.timestamp.type=CreateTime, not LogAppendTime"
    assert said in after.out
    if form:
        assert len(json.loads(after.out)["faults"]) == 1


@pytest.mark.parametrize(
    ("summary", "code", "message"),
    [
        (ProduceSummary(9, sent=9), 0, ""),
        (ProduceSummary(9, sent=9, expired=True), 0, ""),
        (ProduceSummary(9, sent=2, missing=7, expired=True), 3, "7 reports were not made: the"),
        (ProduceSummary(9, sent=8, missing=1, expired=True), 3, "1 report was not made: the"),
        (ProduceSummary(9, sent=2, missing=7), 0, "7 reports were not made\n"),
        (ProduceSummary(9, failed=1, missing=7, expired=True), 1, "7 reports were not made: the"),
    ],
)
def test_a_run_that_lacks_reports_reports_it(
    summary: ProduceSummary,
    code: int,
    message: str,
    over: Over,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: Command,
) -> None:
    (tmp_path / "people.csv").write_text("a0,a1,a2\n0,1,0\n")
    monkeypatch.setattr("calmstream.commands.produce.produce", lambda *_, **__: summary)
    where = over(published_plan(), FaultyBroker())
    done = command("produce", *where, "--records", tmp_path / "people.csv")
    assert done.code == code
    assert message in done.out
    assert ("not made" in done.out) == bool(message)
