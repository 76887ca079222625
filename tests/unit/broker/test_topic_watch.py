"""Check that a running process notices a deleted topic and names the remedy."""

from __future__ import annotations

from collections.abc import Callable
from unittest.mock import Mock

import pytest

from calmstream.broker import topic_watch
from calmstream.broker.in_process.broker import InProcessTopics
from calmstream.common.errors import BrokerUnreachable, FatalError, RecoverableError
from calmstream.consumer.publish.publisher import Publisher
from calmstream.consumer.tally.worker import TallyWorker
from tests.support.tally import small_plan
from tests.support.tally_bench import DAY_MS, Stage, await_requests


def take_turns(stage: Stage, turn: Callable[[], object], count: int = 400) -> None:
    """Take turns of 0.2 seconds; 40 suffice for a role to be ready."""
    for _ in range(count):
        turn()
        stage.clock.advance(0.2)
        await_requests()


ROLES = pytest.mark.parametrize("role", ["worker", "publisher"])


def ready(role: str, **settings: object) -> tuple[Stage, TallyWorker | Publisher]:
    stage = Stage(small_plan(), settings)
    running = getattr(stage, role)()
    take_turns(stage, running.turn, 40)
    return stage, running


@pytest.mark.parametrize(
    ("role", "which"),
    [
        ("worker", "reports"),
        ("worker", "state"),
        ("worker", "dead_letters"),
        ("publisher", "state"),
        ("publisher", "snapshots"),
    ],
)
def test_a_role_stops_when_a_topic_it_uses_is_gone(role: str, which: str) -> None:
    stage, running = ready(role)
    name = stage.names.reports(0) if which == "reports" else getattr(stage.names, which)
    stage.topics.delete([name])
    wanted = (
        "was deleted while it was in use" if role == "worker" else "(was deleted|does not exist)"
    )
    with pytest.raises(FatalError, match=f"{name}.*{wanted}"):
        take_turns(stage, running.turn)


def test_a_topic_created_again_is_another_one() -> None:
    stage, worker = ready("worker")
    stage.topics.delete([stage.names.state])
    stage.topics.create(stage.names.specs(7 * DAY_MS))
    with pytest.raises(FatalError, match="created again"):
        take_turns(stage, worker.turn)


CHANGES = [
    ("reports", {"message.timestamp.type": "CreateTime"}, "CreateTime, not LogAppendTime"),
    ("state", {"max.message.bytes": "1000"}, "max.message.bytes=1000, the plan needs at least"),
]


@ROLES
@pytest.mark.parametrize(("which", "settings", "said"), CHANGES)
def test_a_setting_that_changes_stops_a_role_with_the_remedy(
    role: str, which: str, settings: dict[str, str], said: str
) -> None:
    stage, running = ready(role)
    name = stage.names.reports(0) if which == "reports" else stage.names.state
    stage.topics.alter([name], settings)
    with pytest.raises(FatalError, match=f"topic {name} has .*{said}.*then start again"):
        take_turns(stage, running.turn)


@ROLES
def test_added_partitions_are_said_and_counted_around(role: str) -> None:
    stage, running = ready(role)
    assert running.health.readiness().well
    stage.broker.grow(stage.names.reports(0), stage.plan.partitions + 3)
    take_turns(stage, running.turn)
    verdict = running.health.readiness()
    assert not verdict.well
    assert "collect under a new plan" in verdict.detail


@ROLES
@pytest.mark.parametrize("broken", [InProcessTopics, topic_watch])
def test_a_role_says_that_no_broker_answers_and_why_and_ends_after_the_retry_time(
    role: str, broken: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage, running = ready(role, retry_seconds=60.0)
    error = RecoverableError("the access is refused")
    said: list[str] = []

    def turn() -> None:
        running.turn()
        said.append(running.health.readiness().detail)

    for call in {"describe", "log_ends", "log_starts", "faults"} & set(dir(broken)):
        monkeypatch.setattr(broken, call, Mock(side_effect=error))
    with pytest.raises(BrokerUnreachable, match=f"no broker has answered for .*{error}"):
        take_turns(stage, turn)
    assert any("no broker has answered for" in detail for detail in said)
    assert stage.clock.monotonic() < 120
