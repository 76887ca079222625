"""Check that a running process notices a deleted topic and names the remedy."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from calmstream.common.errors import FatalError, RecoverableError
from calmstream.consumer.runtime.topic_watch import TopicWatch
from tests.support.tally import small_plan
from tests.support.tally_bench import DAY_MS, Stage, await_requests


def turn_until_it_stops(stage: Stage, turn: Callable[[], object]) -> None:
    """Take turns until the worker stops, at most for 80 seconds of its clock."""
    for _ in range(400):
        turn()
        stage.clock.advance(0.2)
        await_requests()


@pytest.mark.parametrize("which", ["reports", "state", "dead_letters"])
def test_a_worker_stops_when_a_topic_it_uses_is_gone(which: str) -> None:
    stage = Stage(small_plan())
    worker = stage.worker()
    stage.turns(worker)
    name = stage.names.reports(0) if which == "reports" else getattr(stage.names, which)
    stage.topics.delete([name])
    with pytest.raises(FatalError, match=f"{name} was deleted while it was in use"):
        turn_until_it_stops(stage, worker.turn)


def test_a_topic_created_again_is_another_one() -> None:
    stage = Stage(small_plan())
    worker = stage.worker()
    stage.turns(worker)
    stage.topics.delete([stage.names.state])
    stage.topics.create(stage.names.specs(7 * DAY_MS))
    with pytest.raises(FatalError, match="created again"):
        turn_until_it_stops(stage, worker.turn)


@pytest.mark.parametrize("which", ["state", "snapshots"])
def test_a_publisher_stops_too(which: str) -> None:
    stage = Stage(small_plan())
    publisher = stage.publisher()
    publisher.turn()
    name = getattr(stage.names, which)
    stage.topics.delete([name])
    with pytest.raises(FatalError, match=rf"{name}.*(was deleted|does not exist)"):
        turn_until_it_stops(stage, publisher.turn)


def test_a_broker_that_does_not_answer_is_not_a_deletion() -> None:
    stage = Stage(small_plan())
    described = stage.topics.describe([stage.names.state])
    request = threading.Event()

    class Mute:
        def ids(self, _names: object) -> object:
            request.set()
            raise RecoverableError("away")

    watch = TopicWatch(Mute(), described, stage.clock, 1.0)  # type: ignore[arg-type]
    watch.turn()
    assert not request.is_set(), "too soon"
    stage.clock.advance(2)
    watch.turn()
    assert request.wait(60)
    for _ in range(20):
        await_requests()
        request.clear()
        stage.clock.advance(2)
        watch.turn()
        assert request.wait(60), "it asks again"
