from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.accuracy import promises as study
from calmstream.common.errors import InvalidInput
from calmstream.estimators import methods
from calmstream.estimators.domain import Codes, Domain
from calmstream.estimators.marginal import Z95
from calmstream.estimators.methods.base import Request
from calmstream.estimators.plan.document import read_plan
from calmstream.evaluation.population import collect, draw, local_plan
from calmstream.evaluation.precision import Precision, needed
from calmstream.evaluation.promises import Goal, read_goal
from tests.support.plans import CRASHES
from tests.unit.calmstream.conftest import Command, Refused

DOMAIN = Domain.from_json(CRASHES)
USERS = 30_000


@pytest.fixture(scope="module")
def records() -> Codes:
    dice = np.random.default_rng(5)
    region = dice.choice(3, size=20_000, p=[0.5, 0.3, 0.2])
    theme = dice.random(20_000) < 0.3 + 0.2 * (region == 1)
    crashed = dice.random(20_000) < 0.1 + 0.2 * theme
    return np.stack([region, theme, crashed], axis=1).astype(np.uint16)


def precision(codes: Codes | None = None) -> Precision:
    plan = local_plan(methods.get("calm"), Request(DOMAIN, "2", USERS, 2))
    return Precision(plan, codes, (1, 2))


def test_a_promise_about_one_table_and_about_groups_is_what_is_measured(records: Codes) -> None:
    promised = precision(records)
    plan, target = promised.plan, (0, 2)
    errors, within = [], []
    for seed in range(60):
        drawn = draw(records, USERS, np.random.default_rng((seed, 9)))
        tallies = collect(plan, drawn, np.random.SeedSequence((seed, 8)), exact=True)
        found = methods.get("calm").fit(plan, tallies).marginal(target).table.reshape(3, 2)
        truth = (plan.domain.histogram(drawn, target) / USERS).reshape(3, 2)
        errors.append(np.square(found - truth).mean())
        smallest = 2
        shares = [one[smallest] / one[smallest].sum() for one in (found, truth)]
        within.append(np.square(shares[0] - shares[1]).mean())
    for promise, measured in (
        (promised.half_width([target]), errors),
        (promised.within((2,), (0,))[0], within),
    ):
        assert promise == pytest.approx(Z95 * np.sqrt(np.mean(measured)), rel=0.25)
    assert promised.within((2,), (0,))[1] == pytest.approx(0.2, abs=0.01)


def test_the_reports_that_a_precision_needs_reach_it() -> None:
    one = precision()
    goal = read_goal("±1 points in region,theme", DOMAIN)
    width = goal.width(one)
    reports = needed(width, 0.01)
    assert reports is not None
    assert width(reports) <= 0.01 < width(0.95 * reports)
    assert needed(lambda _: 0.5, 0.01) is None


@pytest.mark.parametrize(
    ("text", "goal"),
    [
        ("±2 points in region,theme", Goal(0.02, ("region", "theme"))),
        ("0.5 in crashed", Goal(0.005, ("crashed",))),
        ("+-3 % of crashed given region,theme", Goal(0.03, ("crashed",), ("region", "theme"))),
    ],
)
def test_goals_are_read(text: str, goal: Goal) -> None:
    assert read_goal(text, DOMAIN) == goal


@pytest.mark.parametrize(
    "text",
    ["precise", "2 points in weather", "90 points in region", "2 in region,theme given crashed"],
)
def test_other_goals_are_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match=r"--for|weather"):
        read_goal(text, DOMAIN)


def test_the_plan_says_how_many_how_long_and_how_sure_in_ten_lines(
    dictionary: Path, tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    words = ["plan", str(dictionary), "--epsilon", "1", "--k", "2", "--guarantee", "w-event:1095"]
    words += ["--lifetime", "46d"]
    lines = command(*words, "--users", "20000", "--given", "theme").out.splitlines()
    assert len(lines) <= 11
    assert max(map(len, lines)) <= 80
    assert " ".join(lines[1].split()) == "a share of an hour a day a week now ± 1 point needs or"
    assert [line.split("  ")[0] for line in lines[2:4]] == ["one attribute", "two attributes"]
    assert lines[3].endswith(" hours")
    goal = "±2 points in region,theme"
    out = tmp_path / "plan.json"
    shown = command(*words, "--for", goal, "--out", out).out
    assert "± 2 points in region, theme is reached" in shown
    users = read_plan(out.read_bytes()).users
    shown = command(*words, "--users", users // 4, "--for", goal).out
    assert "needs one of" in shown
    assert "in a window, at epsilon 1" in shown
    assert "windows (" in shown
    assert "  epsilon " in shown


def test_a_plan_never_replaces_a_file(dictionary: Path, tmp_path: Path, refused: Refused) -> None:
    out = tmp_path / "plan.json"
    out.write_text("precious")
    words = ("plan", dictionary, "--epsilon", "1", "--k", "2", "--users", "9", "--out", out)
    assert "the file exists" in refused(*words)
    assert out.read_text() == "precious"


def test_the_recorded_promises_are_close_to_the_measurements() -> None:
    found = study.rows()
    assert len(found) >= 20
    few = [seed for seed in sorted(found)[:6] if len(study.case(seed).domain) < 8]
    ratios = [study.ratio(seed, found[seed]["sse_mean"]) for seed in few]
    assert np.abs(np.log(ratios)).max() < np.log(1.5)
    assert np.median(ratios) == pytest.approx(1.0, abs=0.2)
