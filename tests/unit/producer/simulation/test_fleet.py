"""Check the ledgers of a simulated population.

They follow the rules of one device, and their file is never lost.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from calmstream.common.errors import FatalError, InvalidInput, RecoverableError
from calmstream.producer.simulation.fleet import Fleet
from tests.support.producer import LINEAGE, make_plan


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


def test_a_damaged_file_is_never_new_devices(tmp_path: Path) -> None:
    path = tmp_path / "devices.npz"
    with Fleet.open(path, 40, LINEAGE) as fleet:
        fleet.claim(make_plan(), 0, np.arange(40))
    whole = path.read_bytes()
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 1
    for content in (b"", b"rubbish", whole[:-30], whole[:100], bytes(flipped)):
        path.write_bytes(content)
        with pytest.raises(FatalError, match="damaged") as refusal, Fleet.open(path, 40, LINEAGE):
            pass
        assert "pickle" not in str(refusal.value)
        assert path.read_bytes() == content


def test_a_file_belongs_to_one_population(tmp_path: Path) -> None:
    path = tmp_path / "devices.npz"
    with Fleet.open(path, 4, LINEAGE):
        pass
    with pytest.raises(InvalidInput, match="4 devices, expected 5"), Fleet.open(path, 5, LINEAGE):
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
