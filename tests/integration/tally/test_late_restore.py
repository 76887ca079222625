"""Check a worker that can read only some partitions' state at its start.

It must count the partitions that answer, and wait for the others.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

import pytest

from calmstream.broker.transport import Partition
from calmstream.common.errors import FatalError, RecoverableError
from calmstream.consumer.runtime.health import Verdict
from calmstream.consumer.tally.worker import TallyWorker
from tests.support.tally import small_plan
from tests.support.tally_bench import Stage, sample

SETTINGS = {"stall_seconds": 40.0, "topic_check_seconds": 2.0, "retry_seconds": 5.0}


class Silence:
    """A broker of which some partitions hang: they return no offsets and no records."""

    def __init__(self, stage: Stage, *partitions: Partition) -> None:
        self.stage = stage
        self.silent = set(partitions)
        for partition in partitions:
            stage.broker.stall(partition)

    def over(self, worker: TallyWorker, monkeypatch: pytest.MonkeyPatch) -> TallyWorker:
        for name in ("log_starts", "log_ends"):
            monkeypatch.setattr(
                worker.running.clients.topics,
                name,
                self._asked(getattr(worker.running.clients.topics, name)),
            )
        return worker

    def end(self) -> None:
        for partition in self.silent:
            self.stage.broker.release(partition)
        self.silent.clear()

    def _asked(
        self, answers: Callable[[Collection[Partition]], dict[Partition, int]]
    ) -> Callable[[Collection[Partition]], dict[Partition, int]]:
        def ask(partitions: Collection[Partition]) -> dict[Partition, int]:
            if self.silent & set(partitions):
                raise RecoverableError("the broker did not answer in time")
            return answers(partitions)

        return ask


def seconds(stage: Stage, worker: TallyWorker, count: int) -> None:
    """Advance ``count`` seconds."""
    stage.turns(worker, count=2 * count, step=0.5)


@pytest.fixture
def stage() -> Stage:
    stage = Stage(small_plan(partitions=3, windows=1, window=3600), SETTINGS)
    for number in range(3):
        stage.batch(0, [number], partition=number)
    return stage


def test_those_that_answer_are_counted_and_the_late_one_once_it_does(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = stage.input(1)
    silence = Silence(stage, late)
    worker = silence.over(stage.worker(), monkeypatch)
    seconds(stage, worker, 10)
    assert sample(worker, "reports_accepted_total") == 2
    assert worker.health.readiness().well
    assert worker.health.live().well
    seconds(stage, worker, 15)
    assert worker.health.live() == Verdict(False, f"{late} stands still")

    silence.end()
    stage.batch(0, [3], partition=1)
    seconds(stage, worker, 5)
    assert sample(worker, "reports_accepted_total") == 4
    assert worker.health.live().well
    worker.finish()
    assert [stage.states(number)[-1].next_offset for number in range(3)] == [1, 2, 1]


def test_one_that_stays_silent_stops_the_worker_as_any_stall_does(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = Silence(stage, stage.input(2)).over(stage.worker(), monkeypatch)
    seconds(stage, worker, 38)
    with pytest.raises(FatalError, match=r"\[2\] has not advanced for 40 s"):
        seconds(stage, worker, 10)
    worker.abandon()


def test_where_nothing_answers_the_worker_gives_up_after_the_budget_of_a_call(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    every = [stage.input(number) for number in range(3)]
    worker = Silence(stage, *every).over(stage.worker(), monkeypatch)
    with pytest.raises(FatalError, match="did not answer for 5 s"):
        seconds(stage, worker, 10)
    worker.abandon()


def test_late_ones_that_go_to_another_worker_are_restored_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stage = Stage(small_plan(partitions=6, windows=1, window=3600), SETTINGS)
    for number in range(6):
        stage.batch(0, [1], partition=number)
    late = [stage.input(number) for number in (0, 3)]
    silence = Silence(stage, *late)
    workers = [silence.over(stage.worker(), monkeypatch)]
    seconds(stage, workers[0], 3)
    assert workers[0].awaiting_restore == set(late)
    workers += [silence.over(stage.worker(), monkeypatch) for _ in range(2)]
    for _ in range(10):
        stage.turns(*workers, count=2)
    assert sorted(p for one in workers for p in one.awaiting_restore) == late, "each in one place"
    assert not any(one.awaiting_restore & one.folds.keys() for one in workers)
    silence.end()
    for _ in range(10):
        stage.turns(*workers, count=2, step=0.5)
    assert not any(one.awaiting_restore for one in workers)
    assert sorted(p for one in workers for p in one.folds) == [stage.input(n) for n in range(6)]
    for one in workers:
        one.finish()
    assert [stage.states(number)[-1].next_offset for number in range(6)] == [1] * 6
