"""One plan of several is broken; the others are counted exactly and have their finals in time.

All faults run in ``python -m benchmarks.service.many_plans_soak``.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.service.broken_plans import FAULTS, Soak

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(900)]


def test_a_broken_plan_harms_no_other(kafka_bootstrap: str, tmp_path: Path) -> None:
    faults = ("newer-state", "estimate")
    assert set(faults) < set(FAULTS)
    soak = Soak(kafka_bootstrap, tmp_path, healthy=2, windows=1)
    try:
        outcome = soak.play(faults)
    finally:
        soak.close()
    assert set(outcome.reasons) == set(faults)
    assert outcome.reports > 0
    # Time to the final is judged by the soak, on a machine that does nothing else.
    assert max(outcome.slowest.values()) < 60
