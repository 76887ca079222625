"""Compare consumers with and without the repair: both fetch the same, one looks at less."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import pytest
from kafka import TopicPartition
from kafka.cluster import ClusterMetadata
from kafka.consumer.fetcher import Fetcher
from kafka.consumer.subscription_state import SubscriptionState, TopicPartitionState
from kafka.structs import OffsetAndMetadata

from calmstream.broker.kafka.client_repairs.partition_walks import look_at_changes_only

NODES = (1, 2)
PARTITIONS = [TopicPartition(topic, number) for topic in "abc" for number in range(4)]


class Cluster:
    """The metadata that a consumer has."""

    def __init__(self) -> None:
        self._partitions: dict[str, dict[int, Any]] = {}
        self.lead(dict.fromkeys(PARTITIONS, 1), 0)

    def lead(self, leaders: dict[TopicPartition, int], epoch: int) -> None:
        found: dict[str, dict[int, Any]] = {}
        for (topic, number), leader in leaders.items():
            data = SimpleNamespace(leader_id=leader, leader_epoch=epoch)
            found.setdefault(topic, {})[number] = data
        self._partitions = found

    def leader_for_partition(self, partition: TopicPartition) -> int | None:
        data = self._partitions.get(partition.topic, {}).get(partition.partition)
        return None if data is None else int(data.leader_id)

    leader_epoch_for_partition = ClusterMetadata.leader_epoch_for_partition
    update_partition_leader = ClusterMetadata.update_partition_leader
    _broker_partitions: Any = {node: set() for node in NODES}  # noqa: RUF012
    _lock = SubscriptionState()._lock

    def broker_metadata(self, _node: int) -> object:
        return object()

    def request_update(self) -> None:
        pass


class Consumer:
    """A consumer without a connection, and what the brokers know of its fetch sessions."""

    def __init__(self, repaired: bool) -> None:
        self.cluster = Cluster()
        self.slow: set[int] = set()
        manager = SimpleNamespace(
            _net=None,
            cluster=self.cluster,
            broker_version=(4, 0),
            connection_delay=lambda node: float(node in self.slow),
        )
        client = SimpleNamespace(_manager=manager, throttle_delay=lambda _node: 0)
        self._subscription = SubscriptionState()
        self._subscription.subscribe(topics=["a", "b", "c"])
        self._fetcher = Fetcher(client, self._subscription, metrics=None)
        self.sessions: dict[int, dict[TopicPartition, int]] = {}
        self.sent: list[int] = []
        if repaired:
            look_at_changes_only(self)  # type: ignore[arg-type]

    def fetch(self) -> None:
        """Send the requests that are due; the brokers bring their sessions up to date."""
        fetcher = self._fetcher
        fetcher.maybe_validate_positions()
        requests = fetcher._create_fetch_requests()
        self.sent = sorted(requests)
        for node, (request, offsets) in requests.items():
            if request.session_epoch == 0:
                self.sessions[node] = {}
            for topic in request.forgotten_topics_data:
                for number in topic.partitions:
                    del self.sessions[node][TopicPartition(topic.topic, number)]
            for topic in request.topics:
                for part in topic.partitions:
                    where = TopicPartition(topic.topic, part.partition)
                    self.sessions[node][where] = (part.fetch_offset, part.current_leader_epoch)
            for where, (offset, _epoch) in self.sessions[node].items():
                assert offsets[where] == offset
            fetcher._nodes_with_pending_fetch_requests.add(node)

    def answer(self, node: int, places: list[int], fails: bool) -> None:
        """Let a broker answer a fetch with records of some of the partitions asked for."""
        fetcher = self._fetcher
        if node not in fetcher._nodes_with_pending_fetch_requests:
            return
        handler = fetcher._session_handlers[node]
        if fails:
            fetcher._handle_fetch_error(node, RuntimeError("gone"))
        else:
            metadata = handler.next_metadata
            new = type(metadata).new_incremental
            handler.next_metadata = new(7) if metadata.is_full else metadata.next_incremental()
            asked = sorted(self.sessions[node])
            for where in {asked[place % len(asked)] for place in places}:
                fetcher._completed_fetches.append(SimpleNamespace(topic_partition=where))
        fetcher._clear_pending_fetch_request(node, None)

    def drain(self, records: int) -> None:
        """Take the oldest answer: the position moves."""
        fetcher = self._fetcher
        if fetcher._completed_fetches:
            where = fetcher._completed_fetches.popleft().topic_partition
            state = self._subscription.assignment.get(where)
            if state is not None and state.is_fetchable():
                offset = state.position.offset + records
                state.position = OffsetAndMetadata(offset, "", 300 * records)

    def seen(self) -> tuple[Any, ...]:
        """Return what must be equal with and without the repair."""
        subscription = self._subscription
        return (
            self.sent,
            self.sessions,
            subscription.partitions_needing_reset(),
            subscription.partitions_needing_validation(),
            subscription.has_all_fetch_positions(),
        )


class Event:
    """Something that happens to a consumer; the same for every consumer."""

    def __init__(self, dice: random.Random) -> None:
        self.some = dice.sample(PARTITIONS, 4)
        self.node, self.number = dice.choice(NODES), dice.randrange(1000)
        self.places = [dice.randrange(100) for _ in range(dice.randrange(3))]
        self.leaders = {p: dice.choice((1, 2, 2, -1)) for p in PARTITIONS}
        self.happen = dice.choice(
            (
                *(self.assign, self.seek, self.pause, self.drain, self.lead, self.hint),
                *(self.slow, self.revoke, self.validate),
                *2 * (self.resume,),
                *3 * (self.answer,),
            )
        )

    def mine(self, consumer: Consumer) -> list[TopicPartition]:
        return [p for p in self.some if p in consumer._subscription.assignment]

    def assign(self, consumer: Consumer) -> None:
        owned = consumer._subscription.assignment
        kept = {p for p in owned if p.partition % 3 or p not in self.some}
        consumer._subscription.assign_from_subscribed(sorted(kept | set(self.some[:2])))

    def seek(self, consumer: Consumer) -> None:
        for partition in self.mine(consumer):
            consumer._subscription.assignment[partition].seek(self.number)

    def pause(self, consumer: Consumer) -> None:
        for partition in self.mine(consumer):
            consumer._subscription.pause(partition)

    def resume(self, consumer: Consumer) -> None:
        for partition in consumer._subscription.assigned_partitions():
            consumer._subscription.resume(partition)

    def answer(self, consumer: Consumer) -> None:
        consumer.answer(self.node, self.places, fails=self.number % 7 == 0)

    def drain(self, consumer: Consumer) -> None:
        consumer.drain(self.number % 5)

    def lead(self, consumer: Consumer) -> None:
        if self.number % 3 == 0:
            consumer.cluster.lead(self.leaders, self.number)

    def hint(self, consumer: Consumer) -> None:
        leader = SimpleNamespace(leader_epoch=self.number, leader_id=self.node)
        for partition in self.mine(consumer)[:1]:
            data = SimpleNamespace(current_leader=leader)
            consumer._fetcher._maybe_update_current_leader(partition, data)

    def slow(self, consumer: Consumer) -> None:
        consumer.slow ^= {self.node}

    def revoke(self, consumer: Consumer) -> None:
        consumer._subscription.mark_pending_revocation(self.mine(consumer))

    def validate(self, consumer: Consumer) -> None:
        for partition in consumer._subscription.partitions_needing_validation():
            consumer._subscription.complete_validation(partition)


@pytest.mark.parametrize("seed", range(30))
def test_the_brokers_see_the_same_fetch_sessions(seed: int) -> None:
    dice = random.Random(seed)
    plain, repaired = Consumer(repaired=False), Consumer(repaired=True)
    for step in range(150):
        event = Event(dice)
        for consumer in (plain, repaired):
            event.happen(consumer)
            if step % 3:
                consumer.fetch()
        assert repaired.seen() == plain.seen(), f"step {step}"


def looks_of(repaired: bool, monkeypatch: pytest.MonkeyPatch) -> int:
    """Return at how many states a consumer looks in polls without any change."""
    consumer = Consumer(repaired)
    consumer._subscription.assign_from_subscribed(PARTITIONS)
    for partition in PARTITIONS:
        consumer._subscription.assignment[partition].seek(0)
    for _ in range(3):
        consumer.fetch()
        consumer.answer(1, [], fails=False)
    looks = 0
    is_fetchable = TopicPartitionState.is_fetchable

    def counted(state: TopicPartitionState) -> bool:
        nonlocal looks
        looks += 1
        return bool(is_fetchable(state))

    monkeypatch.setattr(TopicPartitionState, "is_fetchable", counted)
    for _ in range(5):
        consumer.fetch()
        assert consumer.sent == [1]
        consumer.answer(1, [], fails=False)
    return looks


def test_without_the_repair_every_poll_looks_at_every_partition(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert looks_of(False, monkeypatch) >= 5 * len(PARTITIONS), "the fault is gone"


def test_polls_look_at_changes_only(monkeypatch: pytest.MonkeyPatch) -> None:
    assert looks_of(True, monkeypatch) == 0
