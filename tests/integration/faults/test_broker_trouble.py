"""Check that a worker whose input topic is deleted on a real broker stops and names the remedy."""

from __future__ import annotations

import pytest

from tests.support.service.running import Stage, until

pytestmark = pytest.mark.kafka

FAILURE_SECONDS = 60.0
"""A worker that cannot continue stops within this time; its retry budget here is 15 s."""


def test_a_deleted_input_topic_stops_the_worker(kafka_bootstrap: str) -> None:
    stage = Stage(kafka_bootstrap)
    worker = stage.worker()
    stage.send(20)
    until("counted", lambda: stage.accepted() == 20, 60)
    stage.topics.delete([stage.names.reports(0)])
    message = worker.failure(FAILURE_SECONDS)
    assert message.startswith("FatalError")
    assert f"{stage.names.reports(0)} was deleted while it was in use" in message
    again = stage.worker().failure(FAILURE_SECONDS)
    assert "does not exist; create it: calmstream topics" in again
    stage.close()
