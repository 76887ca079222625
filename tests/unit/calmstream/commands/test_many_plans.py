from __future__ import annotations

import base64
from dataclasses import replace
from pathlib import Path

import orjson
import pytest
from rich.console import Console

from calmstream.arguments import load_plan
from calmstream.broker.names import TopicNames
from calmstream.broker.transport import TopicSpec
from calmstream.commands.status import document, show, signed
from calmstream.common.errors import PlanError
from calmstream.common.watched_folder import WatchedFolder
from calmstream.consumer.metrics.registry import plan_label
from calmstream.consumer.operations.status import PlanStatus
from tests.support.faulty_broker import FaultyBroker
from tests.support.producer import make_plan
from tests.support.signed import Operator
from tests.unit.calmstream.conftest import Command, Refused

NOWHERE = ("--bootstrap", "127.0.0.1:9")


@pytest.mark.parametrize("name", ["consume", "sink", "status", "topics"])
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "one of the arguments --plan --plans is required"),
        (("--plan", "p", "--plans", "d"), "not allowed with argument --plan"),
        (("--plans", "d"), "--roots FILE says whose plans are served"),
        (("--plan", "p", "--allow-unsigned"), "--roots and --allow-unsigned go with --plans DIR"),
        (("--plans", "d", "--roots", "none"), "none: No such file"),
        (("--plans", "nowhere", "--allow-unsigned"), "nowhere: no such directory"),
    ],
)
def test_options_that_do_not_fit_are_refused_in_one_line(
    name: str,
    arguments: tuple[str, ...],
    said: str,
    refused: Refused,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    target = ("--to", f"parquet:{tmp_path}") if name == "sink" else ()
    assert said in refused(name, *arguments, *target, *NOWHERE)


def test_topics_are_made_for_every_plan_but_those_with_a_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Command
) -> None:
    broker = FaultyBroker()
    monkeypatch.setattr("calmstream.connect.kafka", lambda _: broker)
    monkeypatch.setattr(WatchedFolder.refresh, "__defaults__", (-1.0,))  # a watch reads one file
    one, two = make_plan(name="one"), make_plan(name="two")
    for plan in (one, two):
        (tmp_path / f"{plan.name}.json").write_bytes(plan.to_bytes())
    (tmp_path / "broken.json").write_bytes(b"{")
    reports = TopicNames.of(two, "calmstream").reports(0)
    broker.topics().create([TopicSpec(reports, 1, {"message.timestamp.type": "CreateTime"})])
    words = ("topics", "--plans", tmp_path, "--allow-unsigned", *NOWHERE)
    shown = command(*words)
    assert shown.code == 1
    assert (
        f"{plan_label(one)}: {len(TopicNames.of(one, 'calmstream').specs(0))} topics" in shown.out
    )
    assert "broken.json: " in shown.out
    assert f"{plan_label(two)}: " in shown.out
    assert "plans and refused files without topics: 2" in shown.err
    assert set(broker.topics().describe(TopicNames.of(one, "calmstream").all_reports))
    (tmp_path / "broken.json").unlink()
    (tmp_path / "two.json").unlink()
    assert "0 topics created" in command(*words).out


def test_every_command_reads_a_signed_plan_and_refuses_a_changed_one(tmp_path: Path) -> None:
    operator = Operator()
    given = operator.sign(operator.plan())
    (tmp_path / "plan.json").write_bytes(given)
    assert load_plan(str(tmp_path / "plan.json")) == operator.plan()
    envelope = orjson.loads(given)
    envelope["plan"] = base64.b64encode(operator.plan(name="other").to_bytes()).decode()
    (tmp_path / "plan.json").write_bytes(orjson.dumps(envelope))
    with pytest.raises(PlanError, match=r"plan\.json: plan refused \(bad_signature"):
        load_plan(str(tmp_path / "plan.json"))


def test_a_plan_whose_certificate_has_ended_is_refused_by_devices() -> None:
    operator = Operator()
    statement, end = operator.statement, operator.statement.not_after
    well = PlanStatus(operator.plan(), "well", "", 5, 5, 1, 0, 1_700_000_000, 0)
    assert signed(well, statement, end) == signed(well, None, end + 1) == well
    assert signed(well, statement, end + 1).health == "refused"
    assert "sign it again" in signed(well, statement, end + 1).reason
    over = replace(well, health="over")
    assert signed(over, statement, end + 1) == over


def test_two_plans_of_one_name_have_a_reason_each() -> None:
    console = Console(width=80, record=True)
    why = ("no topic", "2 finals are missing")
    show([PlanStatus(make_plan(), "fault", w, 0, 5, 0, 0, None, 0) for w in why], {}, console)
    assert all(f"edge-test: {w}" in console.export_text(clear=False) for w in why)


def test_the_table_fits_a_narrow_terminal_and_says_why() -> None:
    plan = make_plan(name="a-long-name-of-a-plan")
    longest = PlanStatus(make_plan(name="x" * 48), "well", "", 5, 5, 1, 0, 1_700_000_000, 0)
    late = PlanStatus(plan, "late", "2 finals are missing", 3, 5, 1_234_567, 89, 1_700_000_000, 12)
    new = PlanStatus(make_plan(name="new"), "not started", "", 0, 0, 0, 0, None, 0)
    lost = PlanStatus(make_plan(name="lost"), "fault", "no topic", 0, 5, 0, 0, None, 0, unread=True)
    console = Console(width=80, record=True)
    show([late, new, lost, longest], {"x.json": "not a plan"}, console)
    text = console.export_text()
    assert all(len(line.rstrip()) <= 80 for line in text.splitlines())
    (row,) = (line for line in text.splitlines() if line.startswith("a-long-name-of-a-plan "))
    assert "1,234,567" in row, "each plan has one line"
    (row,) = (line for line in text.splitlines() if line.startswith("lost "))
    assert row.split() == ["lost", "-", "-", "-", "-", "-", "fault"], "not 0: nobody could read it"
    assert "lost: no topic" in text
    assert "2 finals are missing" in text
    assert "x.json: not a plan" in text
    assert document(late)["final"] == 3
    assert document(new)["reports"] == 0
    assert document(lost)["reports"] is None
