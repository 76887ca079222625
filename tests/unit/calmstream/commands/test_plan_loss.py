"""Check that a plan's privacy loss per device is shown, and that a large one needs confirmation."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from pathlib import Path

import pytest

from calmstream import Policy
from calmstream.cli import main
from calmstream.estimators.plan.loss import YEAR
from calmstream.planning import allowed_loss


def planned(data: Path, *more: object, epsilon: str = "1") -> list[str]:
    start = ["plan", data, "--epsilon", epsilon, "--users", "100,000", "--k", "2", *more]
    return [str(word) for word in start]


def test_what_plan_refuses_is_what_a_device_refuses_by_default() -> None:
    policy = Policy()
    assert (Decimal(policy.report_epsilon), Decimal(policy.span_epsilon)) == (
        allowed_loss.MAX_REPORT,
        allowed_loss.MAX_YEAR,
    )
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
    dictionary: Path,
    words: tuple[str, ...],
    epsilon: str,
    shown: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    exit_code = planned(dictionary, "--method", "calm", *words, epsilon=epsilon)
    assert main(exit_code) == 0
    assert f"one device loses at most {shown}" in capsys.readouterr().out
    assert main([*exit_code, "--json"]) == 0
    report, year, plan = re.findall(r"[0-9.]+(?= )", shown.replace("365", ""))
    assert json.loads(capsys.readouterr().out)["loss"] == {
        "report": report,
        "year": year,
        "plan": plan,
    }


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
    words: tuple[str, ...],
    epsilon: str,
    confirmed: str | None,
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = tmp_path / "plan.json"
    argv = planned(dictionary, "--method", "calm", *words, "--out", out, epsilon=epsilon)
    if confirmed is None:
        assert main(argv) == 0
        return
    assert main(argv) == 2
    refusal = capsys.readouterr().err.strip()
    assert "\n" not in refusal
    assert refusal.startswith(f"calmstream: a device can lose {confirmed}: use a smaller epsilon")
    assert not out.exists()
    # The refusal gives the option to type, and that is enough.
    _, _, option = refusal.partition("add ")
    assert main([*argv, *option.split()]) == 0
