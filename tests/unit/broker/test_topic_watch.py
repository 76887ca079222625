"""Check that a running process notices a deleted topic and names the remedy."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

import pytest

from calmstream.broker.in_process.broker import InProcessTopics
from calmstream.common.errors import BrokerUnreachable, FatalError, RecoverableError
from calmstream.consumer.publish.publisher import Publisher
from calmstream.consumer.tally.worker import TallyWorker
from tests.support.tally import small_plan
from tests.support.tally_bench import DAY_MS, Stage, await_requests


def turns(stage: Stage, running: TallyWorker | Publisher) -> None:
    """Take turns until the role is ready."""
    for _ in range(40):
        running.turn()
        stage.clock.advance(0.2)
        await_requests()


def away(*_: object) -> NoReturn:
    raise RecoverableError("the broker does not answer")


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


CHANGES = [
    ("reports", {"message.timestamp.type": "CreateTime"}, "CreateTime, not LogAppendTime"),
    ("state", {"max.message.bytes": "1000"}, "max.message.bytes=1000, the plan needs at least"),
]


@pytest.mark.parametrize("role", ["worker", "publisher"])
@pytest.mark.parametrize(("which", "settings", "said"), CHANGES)
def test_a_setting_that_changes_stops_a_role_with_the_remedy(
    role: str, which: str, settings: dict[str, str], said: str
) -> None:
    stage = Stage(small_plan())
    running = getattr(stage, role)()
    turns(stage, running)
    name = stage.names.reports(0) if which == "reports" else stage.names.state
    stage.topics.alter([name], settings)
    with pytest.raises(FatalError, match=f"topic {name} has .*{said}.*then start again"):
        turn_until_it_stops(stage, running.turn)


@pytest.mark.parametrize("role", ["worker", "publisher"])
def test_added_partitions_are_said_and_counted_around(role: str) -> None:
    stage = Stage(small_plan())
    running = getattr(stage, role)()
    turns(stage, running)
    assert running.health.readiness().well
    stage.broker.grow(stage.names.reports(0), stage.plan.partitions + 3)
    turn_until_it_stops(stage, running.turn)
    verdict = running.health.readiness()
    assert not verdict.well
    assert "collect under a new plan" in verdict.detail


@pytest.mark.parametrize("role", ["worker", "publisher"])
def test_a_role_says_that_no_broker_answers_and_ends_after_the_retry_time(
    role: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage(small_plan(), {"retry_seconds": 60.0})
    running = getattr(stage, role)()
    turns(stage, running)
    said: list[str] = []

    def turn() -> None:
        running.turn()
        said.append(running.health.readiness().detail)

    for call in ("describe", "log_ends", "log_starts"):
        monkeypatch.setattr(InProcessTopics, call, away)
    with pytest.raises(BrokerUnreachable, match="no broker has answered for"):
        turn_until_it_stops(stage, turn)
    assert any("no broker has answered for" in detail for detail in said)
    assert stage.clock.monotonic() < 120
