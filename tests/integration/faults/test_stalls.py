"""Check that after random faults every partition closes its next window, for five seeds."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.brokers.native import NativeKafka
from tests.brokers.provide import or_skip
from tests.support.service.stall_seeds import play_seeds

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


@pytest.mark.timeout(600)
def test_every_partition_closes_its_next_window_after_the_faults(tmp_path: Path) -> None:
    broker = NativeKafka(tmp_path / "broker")
    with or_skip():
        broker.start()
    try:
        results = play_seeds(broker, tmp_path, range(5), 8.0, print)
    finally:
        broker.close()
    assert all(result.held for result in results), [
        result.line() for result in results if not result.held
    ]
