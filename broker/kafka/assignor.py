"""How the leader of a consumer group shares partitions among its members.

Compatible with the client's cooperative assignor: the same name and messages, and a partition moves
in two steps, so that it never has two owners. `docs/upstream` has the faults of the client's.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment
from kafka.structs import TopicPartition


class QuickCooperativeAssignor(CooperativeStickyAssignor):  # type: ignore[misc]  # without types
    """The client's cooperative assignor with another way to share partitions."""

    def assign(self, cluster: Any, members: Iterable[Any]) -> dict[str, Any]:
        parsed = {
            member.member_id: self.parse_member_metadata(member.metadata) for member in members
        }
        topics = {name: frozenset(metadata.subscription) for name, metadata in parsed.items()}
        numbers = {
            topic: cluster.partitions_for_topic(topic) or ()
            for topic in frozenset().union(*topics.values())
        }
        owners = _owners({name: member.partitions for name, member in parsed.items()}, topics)
        shares = share(numbers, topics, owners)
        return {name: self._message(name, shares[name], owners) for name in topics}

    def _message(
        self, member: str, share: Iterable[TopicPartition], owners: Mapping[TopicPartition, str]
    ) -> Any:
        """Return the assignment without partitions that another member must give up first."""
        mine = defaultdict(list)
        for topic, number in sorted(share):
            if owners.get((topic, number), member) == member:
                mine[topic].append(number)
        return ConsumerProtocolAssignment(self.version, sorted(mine.items()), b"")


def _owners(
    claims: Mapping[str, Iterable[TopicPartition]], topics: Mapping[str, Collection[str]]
) -> dict[TopicPartition, str]:
    """Return who owns each partition; of two claims to one partition one counts.

    A member that has dropped a topic gave its partitions up before it joined, although its claims
    still contain them.
    """
    return {
        partition: member
        for member in sorted(claims)
        for partition in claims[member]
        if partition.topic in topics[member]
    }


def share(
    numbers: Mapping[str, Iterable[int]],
    topics: Mapping[str, Collection[str]],
    owners: Mapping[TopicPartition, str],
) -> dict[str, set[TopicPartition]]:
    """Share partitions among members, evenly and with few moves.

    Cost: the number of partitions times the number of members.
    """
    takers: dict[str, list[str]] = {topic: [] for topic in numbers}
    for member in sorted(topics):
        for topic in topics[member]:
            takers[topic].append(member)
    partitions = [TopicPartition(t, n) for t in sorted(numbers) for n in sorted(numbers[t])]
    loads = dict.fromkeys(topics, 0)
    given = {p: owners[p] for p in partitions if p in owners}
    for member in given.values():
        loads[member] += 1
    # Partitions that few members can take come first.
    for partition in sorted(partitions, key=lambda p: len(takers[p.topic])):
        if partition not in given and takers[partition.topic]:
            given[partition] = taker = min(takers[partition.topic], key=loads.__getitem__)
            loads[taker] += 1
    while _balance(given, takers, loads):
        pass
    shares: dict[str, set[TopicPartition]] = {member: set() for member in topics}
    for partition, member in given.items():
        shares[member].add(partition)
    return shares


def _balance(
    given: dict[TopicPartition, str], takers: Mapping[str, list[str]], loads: dict[str, int]
) -> bool:
    """Move each partition that a member with at least two less can take; return whether any."""
    moved = False
    for partition, member in given.items():
        taker = min(takers[partition.topic], key=loads.__getitem__)
        if loads[taker] + 1 < loads[member]:
            given[partition] = taker
            loads[member] -= 1
            loads[taker] += 1
            moved = True
    return moved
