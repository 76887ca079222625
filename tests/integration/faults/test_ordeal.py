"""Counts stay exact through six faults of real processes; ``make soak`` runs the long version."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.brokers.native import NativeKafka
from tests.brokers.provide import or_skip
from tests.support.service.ordeal import Ordeal

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


@pytest.mark.timeout(600)
def test_faults_change_no_count(tmp_path: Path) -> None:
    broker = NativeKafka(tmp_path / "broker")
    with or_skip():
        broker.start()
    try:
        ordeal = Ordeal(
            broker,
            tmp_path,
            reports=130_000,
            rate=5000,
            workers=3,
            session=6.0,
            window=4,
            grace=6,
            latest=120.0,  # the soak judges the time, on a machine that does nothing else
        )
        faults = ["kill", "resend", "freeze", "terminate", "broker", "kill"]
        outcome = ordeal.play(faults, pause=0.3)
    finally:
        broker.close()
    print("\n".join(outcome.lines()))  # noqa: T201 - shown with -s, and on failure
    assert outcome.faults == 6
    assert outcome.during == 6, "faults must hit a flow"
    assert outcome.resent > 0
