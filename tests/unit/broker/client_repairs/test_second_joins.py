"""Check that a change of the topics costs one join."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest
from kafka.cluster import ClusterMetadata
from kafka.consumer.subscription_state import SubscriptionState
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.consumer import ConsumerCoordinator
from kafka.protocol.consumer.metadata import ConsumerProtocolSubscription

from calmstream.broker.kafka.client_repairs.second_joins import (
    remember_assigned_metadata,
    topics_known,
)
from calmstream.broker.kafka.group_reader import KafkaGroupReader
from calmstream.common.errors import MissingTopic


class Cluster(ClusterMetadata):  # type: ignore[misc]  # the client has no types
    """The client's own metadata, without a connection."""

    def __init__(self) -> None:
        super().__init__(bootstrap_servers=["127.0.0.1:1"])
        self.requests = 0

    def learn(self, *topics: str) -> None:
        self._partitions = {
            topic: {0: SimpleNamespace(leader_id=1, leader_epoch=0)} for topic in topics
        }

    def request_update(self) -> Any:
        self.requests += 1


class Coordinator(ConsumerCoordinator):  # type: ignore[misc]  # the client has no types
    """The client's own coordinator without a connection."""

    def __init__(self) -> None:
        self._cluster = Cluster()
        self._lock = threading.RLock()
        self._assignors = {"cooperative-sticky": CooperativeStickyAssignor()}
        self._subscription = SubscriptionState("none")
        self._subscription.subscribe(topics=["t"])
        self._cluster.learn("t")
        self._assignment_snapshot = self._metadata_snapshot = {"t": {0}}
        self._joined_subscription: object = None
        self.rejoining = self.rejoin_needed = False

    _use_group_apis = True
    group_id = "group"
    config = {"group_id": "group", "enable_auto_commit": False}  # noqa: RUF012

    def __del__(self) -> None:
        """There is nothing to close."""

    def join(self, *topics: str) -> bool:
        """Join for topics whose metadata are known; return whether it must join again."""
        self._subscription.change_subscription(list(topics))
        self._subscription.reset_group_subscription()
        self._cluster.learn(*topics)
        self._joined_subscription = self._subscription.subscription
        metadata = ConsumerProtocolSubscription(
            version=2, topics=sorted(topics), user_data=b"", owned_partitions=[]
        )
        member = SimpleNamespace(member_id="me", metadata=metadata.encode())
        self._perform_assignment("me", "cooperative-sticky", [member])
        self._handle_metadata_update(self._cluster)
        return bool(self.need_rejoin())


@pytest.mark.parametrize("topics", [("t", "new"), ("other",)])
def test_without_the_repair_a_leader_joins_twice(topics: tuple[str, ...]) -> None:
    assert Coordinator().join(*topics), "the fault is gone: delete remember_assigned_metadata"


@pytest.mark.parametrize("topics", [("t", "new"), ("other",)])
def test_a_leader_joins_once(topics: tuple[str, ...]) -> None:
    coordinator = Coordinator()
    remember_assigned_metadata(SimpleNamespace(_coordinator=coordinator))
    assert not coordinator.join(*topics)


def test_a_leader_joins_again_if_the_metadata_change_later() -> None:
    coordinator = Coordinator()
    remember_assigned_metadata(SimpleNamespace(_coordinator=coordinator))
    assert not coordinator.join("t", "new")
    coordinator._cluster.learn("t")
    coordinator._handle_metadata_update(coordinator._cluster)
    assert coordinator.need_rejoin()


def test_unknown_topics_are_requested_again_and_again() -> None:
    coordinator = Coordinator()
    consumer = SimpleNamespace(_coordinator=coordinator)
    assert topics_known(consumer, ["t"])
    assert coordinator._cluster.requests == 0
    for times in (1, 2):
        assert not topics_known(consumer, ["t", "new"])
        assert coordinator._cluster.requests >= times
    coordinator._cluster.learn("t", "new")
    assert topics_known(consumer, ["t", "new"])
    assert "new" in coordinator._cluster._topics


class Consumer:
    """Notes for which topics it was subscribed."""

    def __init__(self) -> None:
        self._coordinator = Coordinator()
        self.subscribed: list[list[str]] = []

    def subscribe(self, topics: list[str], listener: object) -> None:  # noqa: ARG002
        self.subscribed.append(topics)

    def assignment(self) -> set[Any]:
        return set()

    def poll(self, **_: object) -> dict[Any, Any]:
        return {}


def stand_still(monkeypatch: pytest.MonkeyPatch, now: float) -> None:
    """Stop the reader's clock."""
    clock = SimpleNamespace(monotonic=lambda: now)
    monkeypatch.setattr("calmstream.broker.kafka.group_reader.time", clock)


def test_a_member_joins_for_new_topics_once_it_knows_their_partitions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stand_still(monkeypatch, 100.0)
    consumer = Consumer()
    reader = KafkaGroupReader(consumer, lambda topics: topics)
    reader.subscribe(["t"])
    assert consumer.subscribed == [["t"]]
    for new in ("u", "v"):
        reader.subscribe(["t", "u", new])
        reader.poll_chunks(0.0)
        assert consumer.subscribed == [["t"]]
    consumer._coordinator._cluster.learn("t", "u", "v")
    reader.poll_chunks(0.0)
    assert consumer.subscribed == [["t"], ["t", "u", "v"]]
    reader.subscribe(["t"])
    reader.poll_chunks(0.0)
    assert consumer.subscribed[2:] == [["t"]]


def test_a_member_joins_without_metadata_after_some_seconds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stand_still(monkeypatch, 100.0)
    consumer = Consumer()
    reader = KafkaGroupReader(consumer, lambda topics: topics)
    reader.subscribe(["t"])
    reader.subscribe(["t", "u"])
    reader.poll_chunks(0.0)
    stand_still(monkeypatch, 106.0)
    reader.poll_chunks(0.0)
    assert consumer.subscribed == [["t"], ["t", "u"]]


def test_all_missing_topics_are_named_at_once() -> None:
    reader = KafkaGroupReader(Consumer(), lambda topics: [t for t in topics if t == "t"])
    with pytest.raises(MissingTopic, match="topic u does not exist") as caught:
        reader.subscribe(["t", "v", "u"])
    assert caught.value.topics == {"u", "v"}
