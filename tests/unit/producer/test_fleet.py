"""The ledgers of a whole population: the rules of one device, and a file that is never lost."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from estimators.errors import FatalError, InvalidInput, RecoverableError
from estimators.plan import Guarantee
from estimators.randomness import SeededRandomness
from producer.assignment import place, places
from producer.fleet import Fleet
from producer.ledger import DeviceState, Status, status
from tests.producer_support import LINEAGE, make_plan

EVERY_3 = Guarantee("w-event", 3)


def test_secrets_are_the_operating_systems_unless_asked() -> None:
    assert Fleet.new(5, LINEAGE).secrets.shape == (5, 16)
    assert not np.array_equal(Fleet.new(5, LINEAGE).secrets, Fleet.new(5, LINEAGE).secrets)
    seeded = [Fleet.new(5, LINEAGE, SeededRandomness(1)).secrets for _ in range(2)]
    assert np.array_equal(*seeded)


def test_the_rules_are_those_of_one_device() -> None:
    """Random histories under four plans of one lineage, judged both ways at every step."""
    plans = [
        make_plan(name="a", windows=40, lineage_epsilon="1"),
        make_plan(name="b", windows=40, epsilon="0.3", lineage_epsilon="1.3"),
        make_plan(name="c", windows=40, guarantee=EVERY_3, epsilon="0.5", lineage_epsilon="1.1"),
        make_plan(
            name="d",
            windows=20,
            window=20,
            guarantee=Guarantee("w-event", 2),
            epsilon="0.3",
            lineage_epsilon="2",
        ),
    ]
    n, generator = 40, np.random.default_rng(11)
    fleet = Fleet.new(n, LINEAGE, SeededRandomness(3))
    states = [DeviceState(secret.tobytes()) for secret in fleet.secrets]
    seen = set()
    for second in range(0, 400, 5):
        plan = plans[generator.integers(len(plans))]
        now = (plan.start + second) * 1000
        window = plan.window_at(now)
        one_by_one = [
            status(plan, place(plan, s.secret).slot, s.under(LINEAGE), now) for s in states
        ]
        seen |= {(plan.name, s) for s in one_by_one}
        may = fleet.may_report(plan, window, places(plan, fleet.secrets).slot)
        assert may.tolist() == [s is Status.READY for s in one_by_one]
        asked = np.flatnonzero(may & (generator.random(n) < 0.4))
        fleet.claim(plan, window, asked)
        for i in asked:
            states[i] = states[i].spend(plan, window)
    assert {(p.name, Status.READY) for p in plans} <= seen
    assert {(p.name, Status.BUDGET_SPENT) for p in plans} <= seen
    assert {(p.name, Status.ALREADY_REPORTED) for p in plans} <= seen


def test_nobody_reports_outside_the_plan() -> None:
    plan, fleet = make_plan(windows=2), Fleet.new(3, LINEAGE)
    slot = np.zeros(3, np.int64)
    assert [fleet.may_report(plan, w, slot).sum() for w in (-1, 0, 1, 2)] == [0, 3, 3, 0]


def test_a_file_keeps_secrets_and_claims(tmp_path: Path) -> None:
    plan, path = make_plan(), tmp_path / "devices.npz"
    with Fleet.open(path, 4, LINEAGE) as fleet:
        secrets = fleet.secrets.copy()
        fleet.claim(plan, 2, np.array([1, 3]))
    assert path.stat().st_mode & 0o777 == 0o600
    with Fleet.open(path, 4, LINEAGE) as fleet:
        assert np.array_equal(fleet.secrets, secrets)
        may = fleet.may_report(plan, 3, np.zeros(4, np.int64))
        assert may.tolist() == [True, False, True, False]
        fleet.claim(plan, 3, np.array([0]))
    with Fleet.open(path, 4, LINEAGE) as fleet:
        may = fleet.may_report(plan, 3, np.zeros(4, np.int64))
        assert may.tolist() == [False, False, True, False]


def test_a_claim_is_on_disk_before_it_returns(tmp_path: Path) -> None:
    path = tmp_path / "devices.npz"
    with Fleet.open(path, 4, LINEAGE) as fleet:
        before = path.read_bytes()
        fleet.claim(make_plan(), 2, np.array([1]))
        assert path.read_bytes() != before


def test_a_damaged_file_is_never_new_devices(tmp_path: Path) -> None:
    path = tmp_path / "devices.npz"
    with Fleet.open(path, 40, LINEAGE) as fleet:
        fleet.claim(make_plan(), 0, np.arange(40))
    whole = path.read_bytes()
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 1
    for content in (b"", b"rubbish", whole[:-30], whole[:100], bytes(flipped)):
        path.write_bytes(content)
        with pytest.raises(FatalError, match="damaged") as told, Fleet.open(path, 40, LINEAGE):
            pass
        assert "pickle" not in str(told.value)
        assert path.read_bytes() == content


def test_a_file_belongs_to_one_population(tmp_path: Path) -> None:
    path = tmp_path / "devices.npz"
    with Fleet.open(path, 4, LINEAGE):
        pass
    with pytest.raises(InvalidInput, match="4 devices, not 5"), Fleet.open(path, 5, LINEAGE):
        pass
    with pytest.raises(InvalidInput, match="lineage"), Fleet.open(path, 4, "f" * 32):
        pass


def test_a_file_is_used_by_one_run_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "devices.npz"
    with (
        Fleet.open(path, 4, LINEAGE),
        pytest.raises(RecoverableError, match="in use"),
        Fleet.open(path, 4, LINEAGE),
    ):
        pass
