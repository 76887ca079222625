from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from calmstream import FileStore, Policy, Recorder, Reporter, withdraw
from calmstream.commands import device
from calmstream.common.clock import utc
from calmstream.estimators.plan import Guarantee
from calmstream.estimators.randomness import SystemRandomness
from calmstream.producer.device.assignment import place
from calmstream.producer.device.report import MOST_VALUES, Report, perturbed
from tests.support.producer import START, make_plan
from tests.unit.calmstream.conftest import Command

DAY = 86_400
PLAN = make_plan(windows=30, window=DAY, guarantee=Guarantee("w-event", 3))
RECORD = {"colour": "green", "size": "m", "flag": "1"}


class Shown:
    def __init__(self, folder: Path, command: Command) -> None:
        self.path, self.plan, self._command = folder / "store", folder / "plan.json", command
        self.plan.write_bytes(PLAN.to_bytes())
        self.store = FileStore(self.path)
        self.slot = place(PLAN, self.store.read().secret).slot
        self.now = (START + self.slot * DAY) * 1000

    def report(self) -> Report | None:
        reporter = Reporter(PLAN, self.store, clock=lambda: self.now, allow_unsigned=True)
        return reporter.report(RECORD)

    def __call__(self, *words: str | Path, fails: bool = False) -> str:
        before = self.path.read_bytes()
        done = self._command("device", *words)
        assert bool(done.code) == fails
        assert self.path.read_bytes() == before  # nothing is ever written
        return done.err if fails else done.out


@pytest.fixture
def shown(tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch) -> Shown:
    made = Shown(tmp_path, command)
    monkeypatch.setattr(device, "wall_clock", lambda: made.now)
    return made


def test_what_left_is_shown_with_its_cost_and_its_end(shown: Shown) -> None:
    assert shown.report() is not None
    out = shown("view", shown.path, "--plan", shown.plan)
    assert "Reports of this device: 1 " in out
    assert "edge-test (tests, unsigned): tests" in out
    assert "it cost epsilon 1; 7 was left" in out
    assert (
        "tests may still cost 7 for now: in any 365 days all reports together cost at most 8" in out
    )
    end = START + (shown.slot + 1 + 365) * DAY
    assert f"1 of it counts until {utc(end)}" in out
    assert f"--plan with the file of plan {PLAN.digest[:8]}" in shown("view", shown.path)
    shown.now = end * 1000
    out = shown("view", shown.path)
    assert "tests may still cost 8 for now" in out
    assert "counts until" not in out


@pytest.mark.parametrize("group", range(3))
def test_the_words_are_the_values_that_a_report_speaks_for(group: int) -> None:
    """The groups report by GRR, OUE and as a parity by GRR."""
    seen = set()
    for byte in range(120):
        secret = bytes([byte]) * 16
        if (where := place(PLAN, secret)).group != group:
            continue
        report = perturbed(PLAN, where, RECORD, where.slot, SystemRandomness())
        view = PLAN.groups[group].views[report.view]
        shape = PLAN.domain.shape(view.attributes)
        cells = np.indices(shape).reshape(len(shape), -1).T
        codes = np.zeros((len(cells), len(PLAN.domain)), np.uint16)
        codes[:, view.attributes] = cells
        if group == 1:  # a bit of OUE is set more often for its own value: those that are set
            bits = np.unpackbits(report.columns["b"], bitorder="little")[: len(cells)]
            likely = np.flatnonzero(bits)
        else:
            likely = np.flatnonzero(view.inputs(codes, PLAN.domain) == report.columns["v"][0])
        labels = [PLAN.domain.attributes[j].labels for j in view.attributes]
        named = [
            " · ".join(np.array(lab)[c] for lab, c in zip(labels, cells[i], strict=True))
            for i in likely
        ]
        text = device.decoded(PLAN, report.encode(PLAN))
        shown = ", ".join(named[:MOST_VALUES])
        assert text.startswith(f"one of: {shown}" if named else "no value")
        more = len(named) - MOST_VALUES
        assert (f" and {more} more" in text) == (more > 0)
        seen.add(text)
    assert len(seen) > 1


def test_preview_says_when_the_next_report_would_leave_and_about_what(shown: Shown) -> None:
    out = shown("preview", shown.path, shown.plan)
    assert "It may leave now." in out
    assert "It costs epsilon 1." in out
    assert "the application gives them" in out
    assert shown.report() is not None
    following = utc(START + (shown.slot + 3) * DAY)
    assert f"It may leave from {following} on." in shown("preview", shown.path, shown.plan)
    shown.now = (START + 40 * DAY) * 1000
    assert "None will leave: the plan is over." in shown("preview", shown.path, shown.plan)


def test_a_report_more_than_10_000_windows_ahead_is_announced(shown: Shown) -> None:
    plan = make_plan(windows=30_000, guarantee=Guarantee("w-event", 10_000))
    shown.plan.write_bytes(plan.to_bytes())
    slot = place(plan, shown.store.read().secret).slot
    shown.now = plan.window_start(-20_000)
    starts = [utc(plan.window_start(t) // 1000) for t in (slot, slot + 10_000)]
    assert f"It may leave from {starts[0]} on." in shown("preview", shown.path, shown.plan)
    shown.now = plan.window_start(slot)
    Reporter(plan, shown.store, clock=lambda: shown.now, allow_unsigned=True).report(RECORD)
    assert f"It may leave from {starts[1]} on." in shown("preview", shown.path, shown.plan)


def test_preview_shows_what_a_recorder_keeps_of_the_devices_own_view(shown: Shown) -> None:
    recorder = Recorder(PLAN, shown.store, clock=lambda: shown.now, allow_unsigned=True)
    for name, value in RECORD.items():
        recorder.set(name, value)
    out = shown("preview", shown.path, shown.plan)
    where = place(PLAN, shown.store.read().secret)
    own = PLAN.groups[where.group].views[where.view].attributes
    for j, name in enumerate(PLAN.domain.names):
        assert (f"{name} is now {RECORD[name]}" in out) == (j in own)


def test_a_policy_explains_why_nothing_leaves(shown: Shown) -> None:
    Reporter(
        PLAN, shown.store, clock=lambda: shown.now, allow_unsigned=True,
        policy=Policy(span_epsilon="1", ever_epsilon="5"),
    )  # fmt: skip
    assert shown.report() is not None
    out = shown("preview", shown.path, shown.plan)
    assert "None will leave: another report would cost more than the device allows for now." in out
    assert "may still cost 0 for now, and 4 ever" in out
    withdraw(shown.store)
    assert "The person has withdrawn" in shown("view", shown.path)
    assert "None will leave: the person has withdrawn." in shown("preview", shown.path, shown.plan)


def test_wrong_files_are_errors_and_make_no_device(shown: Shown, tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    assert "no such file" in shown("view", missing, fails=True)
    assert list(tmp_path.glob("missing*")) == []
    assert "damaged" in shown("view", shown.plan, fails=True)
    assert "plan" in shown("preview", shown.path, shown.path, fails=True)
