"""Check the state of many plans in one line each: what is well, late, at fault, over."""

from __future__ import annotations

from dataclasses import replace

import pytest

from calmstream.broker.shared.broker import SharedBroker
from calmstream.broker.transport import Broker
from calmstream.common.errors import RecoverableError
from calmstream.consumer.operations.retire import delete_topics
from calmstream.consumer.operations.status import LATE_SECONDS, PlanStatus, statuses
from calmstream.consumer.tally.worker import TallyWorker
from calmstream.estimators.plan import Plan
from tests.support.tally import names_of, small_plan
from tests.support.tally_bench import Stage


def of(stage: Stage, *plans: Plan, broker: Broker | None = None) -> list[PlanStatus]:
    shared = SharedBroker(broker or stage.broker, "unused", stage.clock)
    try:
        return list(statuses([(p, names_of(p)) for p in plans], shared, stage.clock))
    finally:
        shared.close(0.0)


def serve(stage: Stage) -> TallyWorker:
    """Start a worker, and a publisher that joins its group; return the worker."""
    worker, publisher = stage.worker(), stage.publisher()
    stage.turns(worker)
    for _ in range(3):
        publisher.turn()
    return worker


def test_a_plan_is_well_then_late_then_over() -> None:
    stage = Stage(small_plan())
    (status,) = of(stage, stage.plan)
    assert (status.health, status.reason) == ("fault", "no worker reads 1 of 1 partitions")
    worker = stage.worker()
    stage.batch(0, [1, 2, 3])
    stage.turns(worker)
    stage.batch(0, [2])
    (status,) = of(stage, stage.plan)
    assert (status.health, status.reason) == ("fault", "no publisher works")
    publisher = stage.publisher()
    publisher.turn()
    (status,) = of(stage, stage.plan)
    assert (status.health, status.reason) == ("well", "")
    assert (status.reports, status.lag, status.final, status.due) == (3, 1, 0, 0)
    assert status.last_final is None
    stage.move_to(14 + LATE_SECONDS)
    (status,) = of(stage, stage.plan)
    assert status.health == "late"
    assert status.reason == "finals missing: 1; records not counted yet: 1"
    worker.abandon()
    publisher.abandon()
    stage.finish()
    (status,) = of(stage, stage.plan)
    assert (status.health, status.final) == ("over", 4)
    assert status.last_final == stage.plan.expires
    delete_topics(stage.topics, stage.names)
    (status,) = of(stage, stage.plan)
    assert (status.health, status.reason) == ("retired", "")


def test_a_plan_that_has_not_begun_is_not_late() -> None:
    later = small_plan(start=small_plan().start + 1000)
    stage = Stage(later)
    stage.clock.wall_ms = (later.start - 500) * 1000
    serve(stage)
    assert [status.health for status in of(stage, later)] == ["not started"]


def test_a_fault_of_one_plan_is_its_state_and_the_others_are_shown() -> None:
    stage = Stage(small_plan())
    missing = replace(stage.plan, name="missing")
    worker = serve(stage)
    found = of(stage, missing, stage.plan)
    assert [status.health for status in found] == ["fault", "well"]
    assert "missing" in found[0].reason
    assert "does not exist; create it" in found[0].reason
    for _ in range(3):
        stage.batch(0, [1])
    stage.turns(worker)
    stage.topics.trim({stage.input(): 2})
    (status,) = of(stage, stage.plan)
    assert (status.health, status.reports) == ("fault", 3)
    assert "starts at 2, needed from 0" in status.reason


def test_a_topic_that_is_not_as_the_plan_needs_it_is_a_fault() -> None:
    stage = Stage(small_plan())
    stage.topics.alter([stage.names.reports(0)], {"message.timestamp.type": "CreateTime"})
    (status,) = of(stage, stage.plan)
    assert status.health == "fault"
    assert "CreateTime" in status.reason
    stage = Stage(small_plan())
    stage.broker.grow(stage.names.reports(0), 7)
    (status,) = of(stage, stage.plan)
    assert status.health == "fault"
    assert "has 7 partitions" in status.reason


def test_a_broker_that_does_not_answer_is_no_fault_of_a_plan(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stage = Stage(small_plan())

    def silent(*_: object) -> None:
        raise RecoverableError("no answer")

    monkeypatch.setattr(type(stage.topics), "describe", silent)
    with pytest.raises(RecoverableError):
        of(stage, stage.plan)
