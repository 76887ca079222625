from __future__ import annotations

import json
import re
import shlex
from decimal import Decimal
from pathlib import Path

import numpy as np
import orjson
import pytest

from calmstream import Policy
from calmstream.estimators.plan import Plan
from calmstream.estimators.plan.loss import YEAR
from calmstream.planning import allowed_loss, plan_page
from tests.support.plans import draft, mixed_domain
from tests.unit.calmstream.conftest import Command, Refused

CALM = ("--users", 100_000, "--k", 2, "--method", "calm")


def test_what_plan_refuses_is_what_a_device_refuses_by_default() -> None:
    policy = Policy()
    assert Decimal(policy.report_epsilon) == allowed_loss.MAX_REPORT
    assert Decimal(policy.span_epsilon) == allowed_loss.MAX_YEAR
    assert policy.span_seconds == YEAR


LOSSES = [
    ((), "1", "1 per report, 1 in any 365 days, 1 over the whole plan"),
    (
        ("--guarantee", "w-event:30", "--window", "1d", "--lifetime", "360d"),
        "0.5",
        "0.5 per report, 6.0 in any 365 days, 6.0 over the whole plan",
    ),
    (("--allow-loss", "16"), "16", "16 per report, 16 in any 365 days, 16 over the whole plan"),
]


@pytest.mark.parametrize(("words", "epsilon", "shown"), LOSSES)
def test_what_a_device_can_lose_is_always_shown(
    dictionary: Path, command: Command, words: tuple[str, ...], epsilon: str, shown: str
) -> None:
    argv = ("plan", dictionary, "--epsilon", epsilon, *CALM, *words)
    assert f"one device loses at most {shown}" in command(*argv).out
    report, year, plan = re.findall(r"[0-9.]+(?= )", shown.replace("365", ""))
    loss = json.loads(command(*argv, "--json").out)["loss"]
    assert loss == {"report": report, "year": year, "plan": plan}


HOURLY = ("--guarantee", "w-event:24", "--window", "1h", "--lifetime", "800d")


@pytest.mark.parametrize(
    ("words", "epsilon", "confirmed"),
    [
        ((), "4", None),
        ((), "4.01", "4.01 with one report (more than 4)"),
        (("--allow-loss", "4"), "4.01", "4.01 with one report (more than 4)"),
        (("--allow-loss", "4.01"), "4.01", None),
        (("--allow-loss", "4.010"), "4.01", None),
        (HOURLY, "1", "365 in any 365 days (more than 8)"),
        ((*HOURLY, "--allow-loss", "364.9"), "1", "365 in any 365 days (more than 8)"),
        ((*HOURLY, "--allow-loss", "365"), "1", None),
        ((*HOURLY, "--lifetime", "8d"), "1", None),
        ((*HOURLY, "--lifetime", "9d"), "1", "9 in any 365 days (more than 8)"),
        (
            (*HOURLY, "--lifetime", "2d"),
            "5",
            "5 with one report (more than 4) and 10 in any 365 days (more than 8)",
        ),
    ],
)
def test_a_large_loss_is_refused_unless_it_is_said_again(
    dictionary: Path,
    tmp_path: Path,
    command: Command,
    refused: Refused,
    words: tuple[str, ...],
    epsilon: str,
    confirmed: str | None,
) -> None:
    out = tmp_path / "plan.json"
    argv = ("plan", dictionary, "--epsilon", epsilon, *CALM, *words, "--out", out)
    if confirmed is None:
        assert command(*argv).code == 0
        return
    refusal = refused(*argv)
    assert refusal.startswith(f"calmstream: a device can lose {confirmed}: use a smaller epsilon")
    assert not out.exists()
    # The refusal gives the option to type, and that is enough.
    _, _, option = refusal.partition("add ")
    assert command(*argv, *option.split()).code == 0


def test_options_carry_what_belongs_to_them(dictionary: Path, command: Command) -> None:
    def planned(words: str) -> tuple[str, str]:
        done = command("plan", dictionary, "--users", 1000, "--json", *shlex.split(words))
        return done.out, " ".join(done.err.split())

    old, method = "a" * 32, """'noise-aware:{"prior_sizes": [0.5, 0.1, 0, 0]}'"""
    out, _ = planned(f"--epsilon 1:2.5 --lineage new,{old} --window 1d:final --method {method}")
    made = json.loads(out)["plan"]
    assert (made["epsilon"], made["lineage_epsilon"], made["k"]) == ("1", "2.5", 2)
    assert made["continues"] == [old] != [made["lineage"]]
    assert (made["window"], made["early"]) == (86_400, False)
    assert made["method"]["parameters"]["prior_sizes"] == ["0.5", "0.1", 0, 0]
    for wrong, said in (
        ("--epsilon 1:0.5", "lineage_epsilon 0.5 is below epsilon 1"),
        ("--epsilon 1 --window 1d:early", "expected a duration, or 1d:final"),
        ("--epsilon 1 --method calm:[1]", "expected a JSON object"),
    ):
        assert said in planned(wrong)[1]


@pytest.mark.parametrize(
    ("data", "options", "message"),
    [
        ("three", [], "--pilot: CALMSTREAM_BOOTSTRAP, or bootstrap in calmstream.toml"),
        ("two", [], "use the pilot's file as DATA too"),
        ("pilot", ["--lineage", "0" * 32], "a plan after a pilot has the pilot's lineage"),
    ],
)
def test_a_pilot_that_does_not_fit_is_refused_before_a_broker_is_asked(
    tmp_path: Path, command: Command, refused: Refused, data: str, options: list[str], message: str
) -> None:
    attributes = [{"name": name, "labels": ["0", "1"]} for name in ("a", "b", "c")]
    (tmp_path / "three.json").write_bytes(orjson.dumps(attributes))
    (tmp_path / "two.json").write_bytes(orjson.dumps(attributes[:2]))
    pilot, more = tmp_path / "pilot.json", ("--epsilon", 4, "--users", 100, "--k", 2)
    start = ("plan", tmp_path / "three.json", "--method", "rr-ind-joint")
    assert command(*start, *more, "--out", pilot).code == 0
    argv = ("plan", tmp_path / f"{data}.json", "--method", "rr-clusters", *more)
    assert message in refused(*argv, "--pilot", pilot, *options)


def plan(*sizes: int) -> Plan:
    return draft(mixed_domain(*sizes), users=1_000_000)[0]


def test_the_line_about_changes_has_the_median_of_each_size() -> None:
    one = plan(2, 3, 8)
    shifts = plan_page.smallest_changes(one)
    assert set(shifts) == {1, 2}
    median = f"{100 * np.median(shifts[2]):.2g}"
    assert f"{median} in a pair" in (plan_page.change_line(one) or "")


def test_tables_that_are_too_large_to_be_tested_are_left_out() -> None:
    assert len(plan_page.smallest_changes(plan(2, 40, 40))[2]) == 2
