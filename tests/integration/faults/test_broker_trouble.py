"""Trouble at a real broker: each kind is survived in a stated time or stops with its remedy."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from broker.clock import SystemClock
from tests.support.service.running import HOUR_MS, Stage, until

pytestmark = pytest.mark.kafka

LOUD_SECONDS = 60.0
"""Within so long a worker that cannot go on has said so; its retry budget here is 15 s."""


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
    told = worker.failure(LOUD_SECONDS)
    assert told.startswith("FatalError")
    assert f"{stage.names.reports(0)} was deleted while it was in use" in told
    again = stage.worker().failure(LOUD_SECONDS)
    assert "does not exist; create it: calmstream topics" in again


@pytest.mark.slow
def test_a_topic_made_anew_is_not_mistaken_for_the_old_one(stage: Stage) -> None:
    worker = stage.worker()
    stage.send(20)
    counted(stage, 20)
    worker.end()
    stage.topics.delete([stage.names.reports(0)])
    stage.topics.create(stage.names.specs(24 * HOUR_MS))
    told = stage.worker().failure(LOUD_SECONDS)
    assert "deleted and made anew" in told
    assert "new output namespace" in told


@pytest.mark.slow
def test_input_trimmed_past_the_checkpoint_stops_with_the_remedy(stage: Stage) -> None:
    worker = stage.worker()
    stage.send(20)
    counted(stage, 20)
    worker.end()
    stage.topics.trim(dict.fromkeys(stage.inputs(), 10))
    told = stage.worker().failure(LOUD_SECONDS)
    assert "the log starts at 10, needed from 0" in told
    assert "lengthen retention.ms" in told


@pytest.mark.slow
def test_input_trimmed_ahead_of_a_running_worker_stops_it(stage: Stage) -> None:
    """A backlog that retention eats before it was read."""
    worker = stage.worker(poll_records=1, writes_in_flight=1)
    until("owned", lambda: worker.metric("assigned_partitions") == 1, 60)
    worker.worker.running.back_pressure.apply = lambda: None
    turned = worker.metric("last_poll_timestamp_seconds")
    # A turn that began before may still be in the method that was replaced; the next is not.
    until("two turns", lambda: worker.metric("last_poll_timestamp_seconds") > turned + 0.5, 30)
    worker.worker.running.membership.block(True)
    stage.send(400)
    stage.topics.trim(dict.fromkeys(stage.inputs(), 300))
    worker.worker.running.membership.block(False)
    # What the client had fetched before the trim is counted; else it is told where it stands.
    # Never neither: a worker that goes on without the records that are gone.
    until("an outcome", lambda: worker.failures or stage.accepted() == 400, LOUD_SECONDS)
    if stage.accepted() < 400:
        assert "outside the log" in worker.failure(LOUD_SECONDS)


@pytest.mark.slow
def test_a_lost_state_topic_stops_the_worker_and_is_counted_again(stage: Stage) -> None:
    worker = stage.worker()
    stage.send(20)
    counted(stage, 20)
    checkpointed_once = worker.metric("checkpoints_total")
    assert checkpointed_once >= 0
    stage.topics.delete([stage.names.state])
    stage.send(5)
    told = worker.failure(LOUD_SECONDS)
    assert stage.names.state in told
    assert "create it" in stage.worker().failure(LOUD_SECONDS)
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
    told = stage.worker().failure(LOUD_SECONDS)
    assert "nothing was ever counted" in told
    assert "new output namespace" in told


class Slow(SystemClock):
    """A machine's clock two hours behind: to it the broker's has jumped ahead."""

    def now_ms(self) -> int:
        return super().now_ms() - 2 * HOUR_MS


@pytest.mark.slow
def test_an_append_clock_that_jumps_ahead_stops_before_it_counts(stage: Stage) -> None:
    worker = stage.worker(clock=Slow())
    stage.send(3)
    told = worker.failure(LOUD_SECONDS)
    assert "over an hour ahead of this machine" in told
    assert stage.accepted() == 0
    fixed = stage.worker()
    until("counted", lambda: fixed.metric("reports_accepted_total") == 3, 60)
