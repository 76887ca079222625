"""Check a worker while the real broker fails.

The worker recovers within a stated time, or it stops and names the remedy.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from calmstream.common.clock import SystemClock
from tests.support.service.running import HOUR_MS, Stage, until

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


def checkpointed(stage: Stage) -> None:
    before = stage.running[-1].metric("checkpoints_total")
    until("a checkpoint", lambda: stage.running[-1].metric("checkpoints_total") > before, 30)


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
def test_a_topic_created_again_is_not_mistaken_for_the_old_one(stage: Stage) -> None:
    worker = stage.worker()
    stage.send(20)
    counted(stage, 20)
    worker.end()
    stage.topics.delete([stage.names.reports(0)])
    stage.topics.create(stage.names.specs(24 * HOUR_MS))
    message = stage.worker().failure(FAILURE_SECONDS)
    assert "deleted and created again" in message
    assert "new output namespace" in message


@pytest.mark.slow
def test_input_trimmed_past_the_checkpoint_stops_with_the_remedy(stage: Stage) -> None:
    worker = stage.worker()
    stage.send(20)
    counted(stage, 20)
    worker.end()
    stage.topics.trim(dict.fromkeys(stage.inputs(), 10))
    message = stage.worker().failure(FAILURE_SECONDS)
    assert "the log starts at 10, needed from 0" in message
    assert "lengthen retention.ms" in message


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


@pytest.mark.slow
def test_a_lost_state_topic_stops_the_worker_and_is_counted_again(stage: Stage) -> None:
    worker = stage.worker()
    stage.send(20)
    counted(stage, 20)
    checkpointed_once = worker.metric("checkpoints_total")
    assert checkpointed_once >= 0
    stage.topics.delete([stage.names.state])
    stage.send(5)
    message = worker.failure(FAILURE_SECONDS)
    assert stage.names.state in message
    assert "create it" in stage.worker().failure(FAILURE_SECONDS)
    stage.topics.create(stage.names.specs(24 * HOUR_MS))
    fresh = stage.worker()
    until("all counted again", lambda: fresh.metric("reports_accepted_total") == 25, 60)


@pytest.mark.slow
def test_a_lost_state_topic_and_a_trimmed_input_stop_with_the_remedy(stage: Stage) -> None:
    worker = stage.worker()
    stage.send(20)
    counted(stage, 20)
    worker.end()
    stage.topics.delete([stage.names.state])
    stage.topics.create(stage.names.specs(24 * HOUR_MS))
    stage.topics.trim(dict.fromkeys(stage.inputs(), 5))
    message = stage.worker().failure(FAILURE_SECONDS)
    assert "nothing was ever counted" in message
    assert "new output namespace" in message


class Slow(SystemClock):
    """A machine's clock two hours behind the broker's."""

    def now_ms(self) -> int:
        return super().now_ms() - 2 * HOUR_MS


@pytest.mark.slow
def test_an_append_clock_that_jumps_ahead_stops_before_it_counts(stage: Stage) -> None:
    worker = stage.worker(clock=Slow())
    stage.send(3)
    message = worker.failure(FAILURE_SECONDS)
    assert "over an hour ahead of this machine" in message
    assert stage.accepted() == 0
    fixed = stage.worker()
    until("counted", lambda: fixed.metric("reports_accepted_total") == 3, 60)
