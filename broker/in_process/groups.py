"""Consumer groups: their members, and the owner of each partition.

A partition moves in two steps, as in Kafka: its owner gives it up at the owner's next poll, and the
new owner takes it at a later one. Those of an expired member are free at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from calmstream.broker.transport import Partition


@dataclass(slots=True)
class _Member:
    topics: frozenset[str]
    last_poll: float  # in seconds


class ConsumerGroup:
    """One consumer group. It takes no lock; the cluster does."""

    def __init__(self, session_seconds: float) -> None:
        self._session = session_seconds
        self._members: dict[str, _Member] = {}
        self._owners: dict[Partition, str] = {}
        self._target: dict[Partition, str] = {}
        self._topics: dict[str, int] = {}
        self._joined = 0

    def join(self, topics: frozenset[str], now: float) -> str:
        self._joined += 1
        member = f"member-{self._joined}"
        self._members[member] = _Member(topics, now)
        self._rebalance()
        return member

    def change_topics(self, member: str, topics: frozenset[str]) -> None:
        state = self._members.get(member)
        if state is not None and state.topics != topics:
            state.topics = topics
            self._rebalance()

    def remove(self, member: str) -> None:
        if self._members.pop(member, None) is not None:
            self._rebalance()

    def sync(
        self, member: str, topics: Mapping[str, int], now: float
    ) -> frozenset[Partition] | None:
        """Handle one poll of a member; return what it owns, None if it is no member any more."""
        for name, other in list(self._members.items()):
            if now - other.last_poll > self._session and name != member:
                self.remove(name)
        state = self._members.get(member)
        if state is None:
            return None
        state.last_poll = now
        wanted: set[str] = set().union(*(each.topics for each in self._members.values()))
        subscribed = {name: count for name, count in topics.items() if name in wanted}
        if subscribed != self._topics:  # a topic was created, deleted or extended
            self._topics = subscribed
            self._rebalance()
        for partition, owner in list(self._owners.items()):
            if owner == member and self._target.get(partition) != member:
                del self._owners[partition]
        for partition, taker in self._target.items():
            if taker == member:
                self._owners.setdefault(partition, member)
        return frozenset(p for p, owner in self._owners.items() if owner == member)

    def owned(self) -> frozenset[Partition]:
        return frozenset(self._owners)

    def _rebalance(self) -> None:
        self._target = {}
        members, turn = list(self._members), 0
        for topic, count in sorted(self._topics.items()):
            takers = {name for name in members if topic in self._members[name].topics}
            for number in range(count if takers else 0):
                while members[turn % len(members)] not in takers:
                    turn += 1
                self._target[Partition(topic, number)] = members[turn % len(members)]
                turn += 1
        self._owners = {
            partition: owner
            for partition, owner in self._owners.items()
            if owner in self._members and partition.number < self._topics.get(partition.topic, 0)
        }
