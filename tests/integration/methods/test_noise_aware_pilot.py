"""A pilot gives noise-aware the scales of its prior; its reports are part of running totals."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np
import orjson
import pytest

from calmstream.cli import main
from calmstream.consumer.read.history import History
from calmstream.consumer.subscribe.assembler import Snapshot
from calmstream.estimators.domain import Domain
from calmstream.estimators.marginal import sse
from calmstream.estimators.plan import Plan
from calmstream.estimators.plan.document import read_plan
from calmstream.estimators.randomness import SeededRandomness
from calmstream.estimators.wire.snapshot import Kind
from calmstream.producer.simulation.simulate import Population
from tests.support.faulty_broker import FaultyBroker
from tests.support.noise_aware import chain
from tests.support.tally import START
from tests.support.tally_bench import Stage

N, D, EVERY = 8000, 5, 2
DOMAIN = Domain.binary(D)
TIMES = ["--window", "10s", "--grace", "3s", "--skew", "2s", "--lifetime", "10s"]


def records() -> np.ndarray:
    return chain(N, D, 11)


@dataclass
class Desk:
    """The planner's files, and a broker that the command line finds."""

    folder: Path
    broker: FaultyBroker | None = None

    def plan(self, name: str, *options: str, method: str = "noise-aware") -> int:
        argv = ["plan", str(self.folder / "domain.json"), "--method", method, "--epsilon", "1"]
        common = ["--k", "2", "--name", name, "--start", str(START), *TIMES]
        return main([*argv, *common, *options, "--out", str(self.folder / f"{name}.json")])

    def follow(self, name: str, pilot: str, *options: str, method: str = "noise-aware") -> int:
        earlier = str(self.folder / f"{pilot}.json")
        return self.plan(name, "--pilot", earlier, *options, method=method)

    def read(self, name: str) -> Plan:
        return read_plan((self.folder / f"{name}.json").read_bytes())


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    (tmp_path / "domain.json").write_bytes(orjson.dumps(DOMAIN.to_json()))
    monkeypatch.chdir(tmp_path)
    Path("calmstream.toml").write_text('bootstrap = "127.0.0.1:1"\nnamespace = "test"\n')
    made = Desk(tmp_path)
    monkeypatch.setattr("calmstream.connect.kafka", lambda _: made.broker)
    monkeypatch.setattr(FaultyBroker, "close", lambda _: None)
    return made


def error(snapshot: Snapshot) -> float:
    """Return the mean squared error of all pairs, against all devices, the pilot's too."""
    codes = records()
    pairs = list(combinations(range(D), 2))
    errors = [
        sse(
            np.array(snapshot.record(*(DOMAIN.names[i] for i in pair)).table).ravel(),
            DOMAIN.histogram(codes, pair) / N,
        )
        for pair in pairs
    ]
    return float(np.mean(errors))


@pytest.mark.slow
def test_from_a_pilot_to_totals_that_hold_it(desk: Desk) -> None:
    half = ["--users", str(N // EVERY), "--guarantee", f"w-event:{EVERY}"]
    # A random lineage would draw other devices for the pilot, and other errors, in every run.
    assert desk.plan("pilot", *half, "--lineage", "5" * 32) == 0
    first = Stage(desk.read("pilot"))
    desk.broker = first.broker
    pilot = first.ask(records(), 31)
    asked = Population(first.plan, records(), randomness=SeededRandomness(31)).due(0)
    assert abs(pilot.sent - N / EVERY) < 6 * (N / EVERY) ** 0.5
    first.finish()

    assert desk.follow("main", "pilot") == 0
    plan = desk.read("main")
    assert plan.lineage == first.plan.lineage
    assert plan.users == pilot.sent  # one window of two: as many are left as were asked
    sizes = plan.parameters["prior_sizes"]
    assert len(sizes) == 4
    # Neighbours in a chain depend on each other: all likely sizes are above the usual middle.
    assert all(0.1 < float(size) < 0.6 for size in sizes[1])
    assert plan.parameters["pilots"][0]["plan"] == first.plan.digest

    second = Stage(plan)
    rest = second.ask(np.delete(records(), asked, axis=0), 32)
    assert rest.sent == N - pilot.sent

    final, total = second.finish(Kind.FINAL, Kind.TOTAL)
    assert total.manifest.reports == final.manifest.reports == rest.sent
    assert total.manifest.processing[0] == "joining what earlier plans counted"
    assert "joining" not in " ".join(final.manifest.processing)
    assert error(total) < error(final)

    # Later questions about all windows hold the pilot too; those about a window do not.
    names = [DOMAIN.names[0], DOMAIN.names[1]]
    with History(plan, second.broker, namespace="test") as history:
        for windows, published in (("total", total), ("0", final)):
            answer, record = history.ask(names, windows), published.record(*names)
            assert answer.table.ravel() == pytest.approx(np.array(record.table), abs=1e-12)
            assert answer.stderr.ravel() == pytest.approx(np.array(record.stderr))
            assert answer.reports == record.reports


def test_a_pilot_without_reports_is_refused(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    assert desk.plan("pilot", "--users", "1000") == 0
    stage = Stage(desk.read("pilot"))
    desk.broker = stage.broker
    capsys.readouterr()
    assert desk.follow("main", "pilot", "--users", "1000") == 2
    assert "no window with reports is final yet; wait for it" in capsys.readouterr().err
    stage.finish()  # every window closes, none holds a report
    assert desk.follow("main", "pilot", "--users", "1000") == 2
    error = capsys.readouterr().err
    assert "no window with reports is final yet" in error
    assert error.count("\n") == 1


@pytest.mark.slow
def test_what_cannot_be_planned_after_a_pilot(
    desk: Desk, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert desk.plan("pilot", "--users", str(N)) == 0
    assert desk.plan("signs", "--users", str(N), method="inp-ht") == 0
    stage = Stage(desk.read("pilot"))
    desk.broker = stage.broker
    stage.ask(records(), 41)
    stage.finish()
    negative = ["--users", "10", "--method", 'noise-aware:{"prior_sizes": [0.5, -0.1]}']
    cases = [
        (["signs", "--users", "10"], "learns from noise-aware, calm, am, marg-ps, marg-rr"),
        (["pilot"], "--users: every device may report before the pilot ends"),
        (["pilot", *negative], "of order 2: expected a standard deviation from 0 to 1"),
        (["pilot", "--users", "10", "--columns", "a0,a1,a2"], "its domain is different"),
    ]
    for options, message in cases:
        capsys.readouterr()
        assert desk.follow("main", *options) == 2
        error = capsys.readouterr().err
        assert message in error
        assert error.count("\n") == 1
    assert not (tmp_path / "main.json").exists()
