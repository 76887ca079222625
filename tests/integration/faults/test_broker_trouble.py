"""Check a worker while the real broker fails.

The worker recovers within a stated time, or it stops and names the remedy.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.service.running import Stage, until

pytestmark = pytest.mark.kafka

FAILURE_SECONDS = 60.0
"""A worker that cannot continue stops within this time; its retry budget here is 15 s."""


@pytest.fixture
def stage(kafka_bootstrap: str) -> Iterator[Stage]:
    made = Stage(kafka_bootstrap)
    yield made
    made.close()


def counted(stage: Stage, reports: int) -> None:
    until("counted", lambda: stage.accepted() == reports, 60)


def test_a_deleted_input_topic_stops_the_worker(stage: Stage) -> None:
    worker = stage.worker()
    stage.send(20)
    counted(stage, 20)
    stage.topics.delete([stage.names.reports(0)])
    message = worker.failure(FAILURE_SECONDS)
    assert message.startswith("FatalError")
    assert f"{stage.names.reports(0)} was deleted while it was in use" in message
    again = stage.worker().failure(FAILURE_SECONDS)
    assert "does not exist; create it: calmstream topics" in again


@pytest.mark.slow
def test_input_trimmed_ahead_of_a_running_worker_stops_it(stage: Stage) -> None:
    """Let retention delete a backlog before it was read."""
    worker = stage.worker(poll_records=1, writes_in_flight=1)
    until("owned", lambda: worker.metric("assigned_partitions") == 1, 60)
    worker.worker.running.counter.apply_back_pressure = lambda: None
    turned = worker.metric("last_poll_timestamp_seconds")
    # A turn that began earlier may still run the method that was replaced; the next does not.
    until("two turns", lambda: worker.metric("last_poll_timestamp_seconds") > turned + 0.5, 30)
    worker.worker.running.membership.block(True)
    stage.send(400)
    stage.topics.trim(dict.fromkeys(stage.inputs(), 300))
    worker.worker.running.membership.block(False)
    # Either the client had fetched the records before the trim, or the worker stops. It must not
    # continue without the records that are gone.
    until("an outcome", lambda: worker.failures or stage.accepted() == 400, FAILURE_SECONDS)
    if stage.accepted() < 400:
        assert "outside the log" in worker.failure(FAILURE_SECONDS)
