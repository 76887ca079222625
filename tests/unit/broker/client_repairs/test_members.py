"""Check the repairs of the Kafka client's group members.

Beside each repair a test shows the fault of the client without it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

from kafka import TopicPartition
from kafka.consumer.subscription_state import SubscriptionState
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.base import Generation
from kafka.coordinator.consumer import ConsumerCoordinator
from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment

from calmstream.broker.kafka.client_repairs.members import (
    complete_begun_joins,
    forget_lost_partitions,
    keep_finished_joins,
)

ASSIGNMENT = b"the assignment"
WHERE = TopicPartition("t", 0)
CONFIG = {"group_id": "group", "enable_auto_commit": False}


class Task:
    """A stand-in for the client's task: finished with a value, or still to run."""

    def __init__(
        self, value: object = None, work: Callable[[], Awaitable[object]] | None = None
    ) -> None:
        self.value, self.work = value, work

    @property
    def is_done(self) -> bool:
        return self.work is None

    def succeeded(self) -> bool:
        return self.is_done


class Loop:
    """A stand-in for the client's event loop."""

    def call_soon(self, work: Callable[[], Awaitable[object]]) -> Task:
        return Task(work=work)

    async def wait_for(self, task: Task, _timeout_ms: float | None) -> object:
        return task.value if task.work is None else await task.work()


class Coordinator(ConsumerCoordinator):  # type: ignore[misc]  # the client has no types
    """The client's own coordinator without a connection: it counts joins and takes assignments."""

    def __init__(self) -> None:
        self._manager = Loop()
        self._lock = threading.RLock()
        self._join_task: Task | None = None
        self._generation = Generation(1, "member", "cooperative-sticky")
        self._assignors = {"cooperative-sticky": CooperativeStickyAssignor()}
        self._subscription = SubscriptionState("none")
        self._subscription.subscribe(topics=["t"])
        self._assignment_snapshot = self._metadata_snapshot = {"t": 1}
        self._joined_subscription = self._subscription.subscription
        self._is_leader = False
        self.rejoining = self.rejoin_needed = False
        self.joins = 0
        self.taken: list[object] = []

    _use_group_apis = True
    group_id = CONFIG["group_id"]
    config = CONFIG

    def __del__(self) -> None:
        """There is nothing to close."""

    def _enable_heartbeat(self) -> None:
        """There is no heartbeat."""

    async def ensure_coordinator_ready_async(self, **_: object) -> bool:
        return True

    async def _do_join_and_sync_async(self) -> object:
        self.joins += 1
        return ASSIGNMENT

    async def _on_join_complete_async(self, *answer: object) -> None:
        self.taken.append(answer[-1])


def consumer_of(coordinator: Coordinator) -> Any:
    subscription = coordinator._subscription
    return SimpleNamespace(
        _coordinator=coordinator, subscription=lambda: subscription.subscription or None
    )


def with_a_finished_join() -> Coordinator:
    coordinator = Coordinator()
    coordinator.rejoining = coordinator.rejoin_needed = True
    coordinator._join_task = Task(ASSIGNMENT)
    return coordinator


def test_without_the_repair_the_client_drops_a_finished_join() -> None:
    coordinator = with_a_finished_join()
    assert asyncio.run(coordinator.join_group_async(timeout_ms=1000))
    assert coordinator.joins == 1, "the fault is gone: delete finished_joins.py"


def test_a_finished_join_is_taken() -> None:
    coordinator = with_a_finished_join()
    keep_finished_joins(consumer_of(coordinator))
    assert asyncio.run(coordinator.join_group_async(timeout_ms=1000))
    assert coordinator.joins == 0
    assert coordinator.taken == [ASSIGNMENT]
    assert not coordinator.rejoining


def test_without_the_repair_the_client_forgets_a_begun_join() -> None:
    coordinator = Coordinator()
    coordinator.rejoining = True
    assert not coordinator.need_rejoin(), "the fault is gone: delete begun_joins.py"


def test_a_begun_join_is_completed() -> None:
    coordinator = Coordinator()
    complete_begun_joins(consumer_of(coordinator))
    assert not coordinator.need_rejoin()
    coordinator.rejoining = True
    assert coordinator.need_rejoin()
    coordinator._subscription.unsubscribe()
    assert not coordinator.need_rejoin()


def after_a_loss(coordinator: Coordinator) -> Any:
    """Return what the member states to own when it joins after it has lost its partitions."""
    (assignor,) = coordinator._assignors.values()
    assignor.on_assignment(ConsumerProtocolAssignment(0, [("t", [0])], b""), 1)
    coordinator._subscription.assign_from_subscribed([WHERE])
    coordinator._generation = Generation.NO_GENERATION
    asyncio.run(coordinator._on_join_prepare_async(-1, ""))
    assert not coordinator._subscription.assigned_partitions()
    return assignor


def test_without_the_repair_the_client_claims_what_it_lost() -> None:
    assignor = after_a_loss(Coordinator())
    assert assignor.member_assignment, "the fault is gone: delete stale_claims.py"
    assert assignor.metadata(["t"]).owned_partitions


def test_a_member_that_lost_its_partitions_claims_none() -> None:
    coordinator = Coordinator()
    assignor = after_a_loss(coordinator)
    forget_lost_partitions(consumer_of(coordinator))
    assert not assignor.metadata(["t"]).owned_partitions
