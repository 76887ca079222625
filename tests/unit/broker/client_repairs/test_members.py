"""Check the repairs of members; beside each a test shows the fault of the client without it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

from kafka import KafkaConsumer, TopicPartition
from kafka.consumer.subscription_state import SubscriptionState
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.base import Generation
from kafka.coordinator.consumer import ConsumerCoordinator
from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment
from kafka.util import Timer

from calmstream.broker.kafka.client_repairs.members import (
    JoinWatch,
    complete_begun_joins,
    forget_lost_partitions,
    keep_finished_joins,
    read_during_joins,
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
    assert coordinator.joins == 1, "the fault is gone: delete keep_finished_joins"


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
    assert not coordinator.need_rejoin(), "the fault is gone: delete complete_begun_joins"


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
    assert assignor.member_assignment, "the fault is gone: delete forget_lost_partitions"
    assert assignor.metadata(["t"]).owned_partitions


def test_a_member_that_lost_its_partitions_claims_none() -> None:
    coordinator = Coordinator()
    assignor = after_a_loss(coordinator)
    forget_lost_partitions(consumer_of(coordinator))
    assert not assignor.metadata(["t"]).owned_partitions


SESSION = 30.0
LOOK_MS = 50.0


class Consumer:
    """A stand-in for a member: its coordinator notes the time limits of its polls."""

    def __init__(self) -> None:
        self.limits: list[float | None] = []
        self.now = 0.0
        self.stable = True
        self.starts: object = None
        self.fetches = 0
        self._subscription = SimpleNamespace(assignment={"t": 0})
        self._coordinator: Any = SimpleNamespace(
            config={"session_timeout_ms": SESSION * 1000},
            _join_task=None,
            poll=self._poll,
            time_to_next_poll=lambda: 0.7,
        )

    def _poll(self, timeout_ms: float | None = None) -> bool:
        """Poll as the client does: without a join it succeeds, else it waits for the join."""
        self.limits.append(timeout_ms)
        if self.starts is not None:
            self._coordinator._join_task, self.starts = self.starts, None
            self.stable = False
        task = self._coordinator._join_task
        if task is not None and task.is_done:
            self._coordinator._join_task, self.stable = None, True
        return self.stable

    def watch(self) -> JoinWatch:
        return JoinWatch(self, now=lambda: self.now)


def running() -> SimpleNamespace:
    return SimpleNamespace(is_done=False)


def poll_of_the_client(member: Consumer) -> None:
    """Let the client's own code poll once with this coordinator, and count its fetches."""

    def fetch(*_: object, **__: object) -> tuple[dict[str, object], bool]:
        member.fetches += 1
        return {}, False

    nothing = SimpleNamespace(
        reset_offsets_if_needed=lambda: None,
        maybe_validate_positions=lambda: None,
        validate_offsets_if_needed=lambda: None,
        fetch_records=fetch,
    )
    client = SimpleNamespace(
        _coordinator=member._coordinator,
        _fetcher=nothing,
        _refresh_committed_offsets=lambda **_: None,
        config={"group_id": "group"},
    )
    KafkaConsumer._poll_once(client, Timer(100), 1)


def test_without_the_repair_the_client_does_not_fetch_during_a_join() -> None:
    member = Consumer()
    member.starts = running()
    for _ in range(3):
        poll_of_the_client(member)
    assert member.fetches == 0, "the fault is gone: delete JoinWatch"


def test_the_client_fetches_during_a_join() -> None:
    member = Consumer()
    member.starts = running()
    read_during_joins(member)
    for _ in range(3):
        poll_of_the_client(member)
    assert member.fetches == 3
    assert member.limits == [LOOK_MS], "the join was begun once, and is not waited for"


def test_a_join_longer_than_a_session_is_waited_for() -> None:
    member = Consumer()
    watch = member.watch()
    member.starts = running()
    assert watch.poll(timeout_ms=500.0)
    member.now = SESSION
    assert watch.poll(timeout_ms=500.0)
    member.now = SESSION + 1
    assert not watch.poll(timeout_ms=500.0)
    assert watch.time_to_next_poll() == 0.7
    assert member.limits == [LOOK_MS, 500.0]
