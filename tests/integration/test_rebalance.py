"""Members of a real consumer group come and go: static ones, spare ones, and many at once."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from running import SESSION_SECONDS, Stage, until

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


@pytest.fixture
def make(kafka_bootstrap: str) -> Iterator[object]:
    made: list[Stage] = []

    def one(groups: int, partitions: int) -> Stage:
        made.append(Stage(kafka_bootstrap, groups, partitions))
        return made[-1]

    yield one
    for stage in made:
        stage.close()


def owned(*workers: object) -> list[float]:
    return [worker.metric("assigned_partitions") for worker in workers]


def test_spare_workers_are_ready_and_take_over(make: object) -> None:
    """One partition, three workers: two own nothing, and one of them takes it when it is free."""
    stage = make(1, 1)
    workers = [stage.worker() for _ in range(3)]
    until("one owner", lambda: sorted(owned(*workers)) == [0, 0, 1], 90)
    stage.send(30)
    until("counted", lambda: stage.accepted() == 30, 60)
    owner = workers[owned(*workers).index(1)]
    spare = [w for w in workers if w is not owner]
    owner.end()
    until("a spare one owns it", lambda: sorted(owned(*spare)) == [0, 1], 60)
    stage.send(30)
    until("counted on", lambda: stage.accepted() == 60, 60)
    until("all are ready", lambda: all(w.worker.health.readiness().well for w in spare), 60)


def test_a_static_member_that_restarts_disturbs_nobody(make: object) -> None:
    stage = make(1, 4)
    first = stage.worker(member="one")
    second = stage.worker(member="two")
    until("shared", lambda: owned(first, second) == [2, 2], 90)
    stage.send(40)
    until("counted", lambda: stage.accepted() == 40, 60)
    changes = second.metric("rebalances_total")
    first.end()
    began = time.monotonic()
    back = stage.worker(member="one")
    until("it has its own again", lambda: owned(back, second) == [2, 2], 60)
    stage.send(40)
    until("counted on", lambda: stage.accepted() == 80, 60)
    if time.monotonic() - began < SESSION_SECONDS:  # else the machine was too slow for the test
        assert second.metric("rebalances_total") == changes
