"""Check how the leader of a group shares partitions, on random groups."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import pytest
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.protocol.consumer.metadata import ConsumerProtocolSubscription
from kafka.structs import TopicPartition

from calmstream.broker.kafka.assignor import QuickCooperativeAssignor

SEEDS = range(300)


class Cluster:
    def __init__(self, numbers: dict[str, int]) -> None:
        self._numbers = numbers

    def topics(self) -> set[str]:
        return set(self._numbers)

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        return set(range(self._numbers[topic])) if topic in self._numbers else None


def member(name: str, topics: set[str], claims: list[TopicPartition]) -> Any:
    """Return a member as the leader sees it: decoded from the bytes that it sends."""
    assignor = QuickCooperativeAssignor()
    assignor.member_assignment = claims
    metadata = ConsumerProtocolSubscription.decode(assignor.metadata(topics).encode())
    return SimpleNamespace(member_id=name, metadata=metadata)


def assign(
    numbers: dict[str, int],
    topics: dict[str, set[str]],
    owned: dict[str, set[TopicPartition]],
    assignor: CooperativeStickyAssignor | None = None,
) -> dict[str, set[TopicPartition]]:
    members = [member(name, topics[name], sorted(owned.get(name, ()))) for name in topics]
    messages = (assignor or QuickCooperativeAssignor()).assign(Cluster(numbers), members)
    decoded = {name: type(m).decode(m.encode()) for name, m in messages.items()}
    return {name: set(message.partitions()) for name, message in decoded.items()}


def random_group(dice: random.Random) -> tuple[dict[str, int], dict[str, set[str]]]:
    numbers = {f"t{n}": dice.randint(1, 4) for n in range(dice.randint(1, 8))}
    names = [f"m{n}" for n in range(dice.randint(1, 5))]
    every = dice.random() < 0.5
    topics = {
        name: set(numbers) if every else {t for t in numbers if dice.random() < 0.6}
        for name in names
    }
    return numbers, topics


def wanted(numbers: dict[str, int], topics: dict[str, set[str]]) -> set[TopicPartition]:
    taken = set().union(*topics.values())
    return {TopicPartition(t, n) for t in taken for n in range(numbers[t])}


def settle(
    numbers: dict[str, int],
    topics: dict[str, set[str]],
    owned: dict[str, set[TopicPartition]],
) -> tuple[dict[str, set[TopicPartition]], int]:
    """Assign as a group does: once more after a step in which a member has given something up.

    Before a join, a member gives up the partitions of topics that it has dropped; its claims keep
    them. In no step does a partition have two owners.
    """
    for steps in range(1, 4):
        held = {m: {p for p in owned.get(m, ()) if p.topic in topics[m]} for m in topics}
        got = assign(numbers, topics, owned)
        for name, mine in got.items():
            others = {p for m in topics if m != name for p in held[m]}
            assert not mine & others, "another member still owns it"
            assert {p.topic for p in mine} <= topics[name]
        given_up = any(held[m] - got[m] for m in topics)
        owned = got
        if not given_up:
            return owned, steps
    raise AssertionError("the group does not settle")


def check_shared(
    numbers: dict[str, int],
    topics: dict[str, set[str]],
    owned: dict[str, set[TopicPartition]],
) -> None:
    everything = [partition for mine in owned.values() for partition in mine]
    assert len(everything) == len(set(everything))
    assert set(everything) == wanted(numbers, topics)
    for mine in owned.values():
        for other, can_take in topics.items():
            movable = any(partition.topic in can_take for partition in mine)
            assert not movable or len(mine) <= len(owned[other]) + 1


@pytest.mark.parametrize("part", range(10))
def test_every_partition_has_one_owner_and_loads_are_even(part: int) -> None:
    for seed in SEEDS[part::10]:
        dice = random.Random(seed)
        numbers, topics = random_group(dice)
        owned, _ = settle(numbers, topics, {})
        check_shared(numbers, topics, owned)
        for _ in range(3):
            # members come and go, and change their topics
            topics = {m: t for m, t in topics.items() if dice.random() < 0.8} or topics
            if dice.random() < 0.5:
                topics[f"new{dice.randrange(9)}"] = set(numbers)
            for name in topics:
                if dice.random() < 0.3:
                    topics[name] = {t for t in numbers if dice.random() < 0.6}
            owned = {name: mine for name, mine in owned.items() if name in topics}
            owned, _ = settle(numbers, topics, owned)
            check_shared(numbers, topics, owned)


def test_nothing_moves_without_a_reason() -> None:
    for seed in SEEDS:
        numbers, topics = random_group(random.Random(seed))
        owned, _ = settle(numbers, topics, {})
        again, steps = settle(numbers, topics, owned)
        assert again == owned
        assert steps == 1


def test_as_few_partitions_move_as_with_the_assignor_of_the_client() -> None:
    for seed in SEEDS:
        dice = random.Random(seed)
        numbers = {f"t{n}": dice.randint(1, 4) for n in range(dice.randint(1, 8))}
        topics = {f"m{n}": set(numbers) for n in range(dice.randint(1, 4))}
        owned, _ = settle(numbers, topics, {})
        topics["new"] = set(numbers)
        kept = [
            {name: len(mine & owned.get(name, set())) for name, mine in each.items()}
            for each in (
                assign(numbers, topics, owned),
                assign(numbers, topics, owned, CooperativeStickyAssignor()),
            )
        ]
        assert sum(kept[0].values()) >= sum(kept[1].values())


def test_a_partition_whose_owner_dropped_the_topic_is_given_at_once() -> None:
    """The client gives it to nobody: delete the assignor's second reason if this changes."""
    numbers = {"a": 1, "b": 2}
    topics = {"first": {"a"}, "second": {"b"}}
    owned = {
        "first": {TopicPartition("a", 0), TopicPartition("b", 0)},
        "second": {TopicPartition("b", 1)},
    }
    both = {TopicPartition("b", 0), TopicPartition("b", 1)}
    assert assign(numbers, topics, owned)["second"] == both
    assert assign(numbers, topics, owned, CooperativeStickyAssignor())["second"] != both
