"""Check the logs, topics and clocks at which a worker must stop and name the remedy."""

from __future__ import annotations

import pytest

from calmstream.broker.transport import TopicSpec
from calmstream.common.errors import FatalError
from tests.support.clock import ManualClock
from tests.support.tally import at, small_plan
from tests.support.tally_bench import Stage


def test_times_of_the_sender_stop_the_worker_at_the_start() -> None:
    stage = Stage(small_plan())
    stage.topics.delete([stage.input().topic])
    stage.topics.create([TopicSpec(stage.input().topic, 1, {"retention.ms": "-1"})])
    with pytest.raises(FatalError, match="LogAppendTime"):
        stage.worker()


def test_a_record_an_hour_ahead_stops_the_worker_before_it_is_folded() -> None:
    stage = Stage(small_plan())
    worker = stage.worker(clock=ManualClock(at(0) - 3_700_000, stage.clock.seconds))
    stage.batch(0, [1])
    with pytest.raises(FatalError, match="an hour ahead"):
        stage.turns(worker, count=3, step=0.0)
    assert worker.folds[stage.input()].next_offset == 0
    assert stage.state_records() == []


def test_a_missing_topic_stops_the_worker_at_the_start() -> None:
    stage = Stage(small_plan())
    stage.topics.delete([stage.names.dead_letters])
    with pytest.raises(FatalError, match="calmstream topics"):
        stage.worker()


def test_too_short_a_retention_stops_the_worker_at_the_start() -> None:
    stage = Stage(small_plan())
    stage.topics.delete([stage.input().topic])
    stage.topics.create(stage.names.specs(60_000))
    with pytest.raises(FatalError, match=r"retention\.ms=60000"):
        stage.worker()
