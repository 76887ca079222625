"""Check the logs, topics and clocks at which a worker must stop and name the remedy."""

from __future__ import annotations

import pytest

from calmstream.broker.transport import TopicSpec
from calmstream.common.errors import FatalError
from tests.support.clock import ManualClock
from tests.support.tally import at, small_plan
from tests.support.tally_bench import DAY_MS, Stage


def test_a_trimmed_log_stops_the_worker() -> None:
    stage = Stage(small_plan())
    worker = stage.worker()
    for _ in range(4):
        stage.batch(0, [1])
    stage.turns(worker)
    worker.finish()
    stage.topics.trim({stage.input(): 1})
    with pytest.raises(FatalError, match=r"starts at 1, needed from 0.*retention"):
        stage.worker().turn()


def test_a_log_trimmed_up_to_resume_from_is_fine() -> None:
    stage = Stage(small_plan())
    worker = stage.worker()
    stage.batch(0, [1])
    stage.move_to(14)
    stage.batch(1, [2])
    stage.turns(worker)
    worker.finish()
    stage.topics.trim({stage.input(): 1})
    again = stage.worker()
    again.turn()
    assert again.folds[stage.input()].next_offset == 2


def test_a_trimmed_log_without_any_state_stops_the_worker() -> None:
    stage = Stage(small_plan())
    stage.batch(0, [1])
    stage.topics.trim({stage.input(): 1})
    with pytest.raises(FatalError, match="nothing was ever counted"):
        stage.worker().turn()


def test_a_recreated_topic_stops_the_worker() -> None:
    stage = Stage(small_plan())
    worker = stage.worker()
    stage.batch(0, [1])
    stage.turns(worker)
    worker.finish()
    stage.topics.delete([stage.input().topic])
    stage.topics.create(stage.names.specs(DAY_MS))
    stage.batch(0, [1])
    with pytest.raises(FatalError, match="created again"):
        stage.worker().turn()


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
