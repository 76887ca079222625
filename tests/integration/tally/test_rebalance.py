"""Check a worker on real Kafka that was expelled from its group."""

from __future__ import annotations

import pytest

from tests.brokers.administration import expel
from tests.support.service.processes import until
from tests.support.service.running import Stage

pytestmark = pytest.mark.kafka


@pytest.mark.slow
def test_a_worker_that_was_expelled_goes_on_closing_windows(
    kafka_bootstrap: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Without reports only ticks close windows, and a fetch no longer returns the log's end."""
    stage = Stage(kafka_bootstrap, partitions=2, windows=600, window=1, grace=1, age=1)
    worker = stage.worker()

    def closed() -> int:
        folds = dict(worker.worker.folds)
        return (
            min(fold.admission.closed_through for fold in folds.values()) if len(folds) == 2 else -1
        )

    until("windows close", lambda: closed() >= 3, 60)
    for turn in range(2):
        expel(kafka_bootstrap, f"{stage.names.output_prefix}.tally")
        until("it is back", lambda t=turn: worker.metric("rebalances_total") >= t + 2, 60)
        before = closed()
        until("more windows close", lambda b=before: closed() >= b + 3, 60)
    assert not [r for r in caplog.records if "multiple consumers" in r.getMessage()]
    stage.close()
