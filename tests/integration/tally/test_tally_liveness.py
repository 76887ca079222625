"""Check that every assigned partition of a working worker advances or is at its end."""

from __future__ import annotations

import pytest

from calmstream.common.errors import FatalError
from calmstream.common.health import Verdict
from calmstream.consumer.tally.worker import TallyWorker
from tests.support.tally import small_plan
from tests.support.tally_bench import Stage, sample

STALL = {"stall_seconds": 10.0}


def test_an_idle_partition_at_its_end_is_alive() -> None:
    stage = Stage(small_plan(partitions=2), STALL)
    worker = stage.worker()
    stage.batch(0, [1])
    stage.turns(worker, count=30, step=1.0)
    assert worker.health.live().well
    worker.finish()


def behind(stage: Stage) -> TallyWorker:
    """Return a worker with unread records whose partition stops answering."""
    worker = stage.worker(poll_records=1)
    for _ in range(40):
        stage.batch(0, [1])
    stage.turns(worker, count=10, step=0.1)
    stage.broker.stall(stage.input())
    assert 0 < worker.folds[stage.input()].next_offset < 40
    return worker


def test_a_partition_without_progress_is_reported_and_then_stops_the_worker() -> None:
    stage = Stage(small_plan(partitions=2), STALL)
    worker = behind(stage)
    stage.turns(worker, count=4, step=1.0)
    assert worker.health.live().well
    stage.turns(worker, count=4, step=1.0)
    assert worker.health.live() == Verdict(False, f"{stage.input()} stands still")
    with pytest.raises(FatalError, match="has not advanced for 10 s"):
        stage.turns(worker, count=6, step=1.0)
    worker.abandon()


def test_a_partition_that_goes_on_is_alive_again() -> None:
    stage = Stage(small_plan(), STALL)
    worker = behind(stage)
    stage.turns(worker, count=8, step=1.0)
    assert not worker.health.live().well
    stage.broker.release(stage.input())
    stage.turns(worker, count=50, step=0.1)
    assert worker.health.live().well
    assert sample(worker, "reports_accepted_total") == 40
    worker.finish()


def seconds(stage: Stage, worker: TallyWorker, count: int) -> None:
    stage.turns(worker, count=2 * count, step=0.5)


def test_a_stalled_partition_does_not_delay_the_others() -> None:
    stage = Stage(small_plan(partitions=2), {"stall_seconds": 60.0, "topic_check_seconds": 1.0})
    worker = stage.worker(retry_seconds=5.0)
    stage.batch(0, [1])
    stage.batch(0, [2], partition=1)
    seconds(stage, worker, 3)
    alone = stage.input(1)
    stage.broker.stall(alone, offsets=False)
    seconds(stage, worker, 25)
    stage.batch(2, [3])
    seconds(stage, worker, 20)
    # The tick that the other one takes no more has waited far longer than a call may fail.
    assert [c.window for c in stage.closed(0)] == [0, 1, 2, 3]
    assert sample(worker, "reports_accepted_total") == 3
    assert stage.closed(1) == []
    assert worker.health.live() == Verdict(False, f"{alone} stands still")

    stage.broker.release(alone)
    seconds(stage, worker, 5)
    assert worker.health.live().well
    assert [c.window for c in stage.closed(1)] == [0, 1, 2, 3]
    worker.finish()


def test_a_worker_whose_coordinator_is_away_is_not_ready() -> None:
    stage = Stage(small_plan())
    worker = stage.worker()
    seconds(stage, worker, 2)
    assert worker.health.readiness().well
    stage.broker.set_coordinator_away(True)
    stage.batch(0, [1])
    seconds(stage, worker, 10)
    assert worker.health.readiness().well, "coordinators move within seconds"
    seconds(stage, worker, 20)
    verdict = worker.health.readiness()
    assert not verdict.well
    assert "outside its consumer group for" in verdict.detail
    assert sample(worker, "reports_accepted_total") == 0
    stage.broker.set_coordinator_away(False)
    seconds(stage, worker, 3)
    assert worker.health.readiness().well
    assert sample(worker, "reports_accepted_total") == 1
    worker.finish()


def test_a_publisher_whose_coordinator_is_away_is_not_ready() -> None:
    stage = Stage(small_plan())
    stage.broker.set_coordinator_away(True)
    publisher = stage.publisher()
    publisher.turn()
    assert publisher.health.readiness() == Verdict(False, "joining")
    stage.clock.advance(30.0)
    publisher.turn()
    assert "is the group's coordinator up?" in publisher.health.readiness().detail
    stage.broker.set_coordinator_away(False)
    for _ in range(5):
        publisher.turn()
    assert publisher.health.readiness().well
    publisher.finish()


# Workers that can read only some partitions' state at their start.

SETTINGS = {"stall_seconds": 40.0, "topic_check_seconds": 2.0, "retry_seconds": 5.0}


@pytest.fixture
def stage() -> Stage:
    stage = Stage(small_plan(partitions=3, windows=1, window=3600), SETTINGS)
    for number in range(3):
        stage.batch(0, [number], partition=number)
    return stage


def test_those_that_answer_are_counted_and_the_late_one_once_it_does(stage: Stage) -> None:
    late = stage.input(1)
    stage.broker.stall(late, offsets=False)
    worker = stage.worker()
    seconds(stage, worker, 10)
    assert sample(worker, "reports_accepted_total") == 2
    assert worker.health.readiness().well
    assert worker.health.live().well
    seconds(stage, worker, 15)
    assert worker.health.live() == Verdict(False, f"{late} stands still")

    stage.broker.release(late)
    stage.batch(0, [3], partition=1)
    seconds(stage, worker, 5)
    assert sample(worker, "reports_accepted_total") == 4
    assert worker.health.live().well
    worker.finish()
    assert [stage.states(number)[-1].next_offset for number in range(3)] == [1, 2, 1]


def test_one_that_stays_silent_stops_the_worker_as_any_stall_does(stage: Stage) -> None:
    stage.broker.stall(stage.input(2), offsets=False)
    worker = stage.worker()
    seconds(stage, worker, 38)
    with pytest.raises(FatalError, match=r"\[2\] has not advanced for 40 s"):
        seconds(stage, worker, 10)
    worker.abandon()


def test_where_nothing_answers_the_worker_gives_up_after_the_budget_of_a_call(stage: Stage) -> None:
    for number in range(3):
        stage.broker.stall(stage.input(number), offsets=False)
    worker = stage.worker()
    with pytest.raises(FatalError, match="did not answer for 5 s"):
        seconds(stage, worker, 10)
    worker.abandon()


def test_late_ones_that_go_to_another_worker_are_restored_there() -> None:
    stage = Stage(small_plan(partitions=6, windows=1, window=3600), SETTINGS)
    for number in range(6):
        stage.batch(0, [1], partition=number)
    late = [stage.input(number) for number in (0, 3)]
    for partition in late:
        stage.broker.stall(partition, offsets=False)
    workers = [stage.worker()]
    seconds(stage, workers[0], 3)
    assert workers[0].assigned.awaiting_restore == set(late)
    workers += [stage.worker() for _ in range(2)]
    assigned = [one.assigned for one in workers]
    for _ in range(10):
        stage.turns(*workers, count=2)
    assert sorted(p for one in assigned for p in one.awaiting_restore) == late, "each in one place"
    assert not any(one.awaiting_restore & one.folds.keys() for one in assigned)
    for partition in late:
        stage.broker.release(partition)
    for _ in range(10):
        stage.turns(*workers, count=2, step=0.5)
    assert not any(one.awaiting_restore for one in assigned)
    assert sorted(p for one in workers for p in one.folds) == [stage.input(n) for n in range(6)]
    for one in workers:
        one.finish()
    assert [stage.states(number)[-1].next_offset for number in range(6)] == [1] * 6
