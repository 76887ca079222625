"""Consumer groups: their members, generations, and the owner of each partition.

The rebalance is cooperative. After a change of members or topics, the group computes a new target
assignment at once. A partition moves in two steps: its owner gives it up at the owner's next poll,
and the new owner takes it at a later poll. The partitions of an expired member are free at once;
the member notices at its next poll. This module takes no lock; the cluster does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from calmstream.broker.transport import Partition
from calmstream.common.errors import FatalError

Assignor = Callable[[Mapping[str, int], Mapping[str, frozenset[str]]], dict[Partition, str]]
"""Computes the owner of each partition.

The arguments are the number of partitions of each topic, and the topics of each member.
"""


def round_robin(
    topics: Mapping[str, int], members: Mapping[str, frozenset[str]]
) -> dict[Partition, str]:
    """Assign the partitions one by one to the members in turn."""
    target: dict[Partition, str] = {}
    turn = 0
    order = list(members)
    for topic in sorted(topics):
        subscribers = {name for name in order if topic in members[name]}
        for number in range(topics[topic] if subscribers else 0):
            while order[turn % len(order)] not in subscribers:
                turn += 1
            target[Partition(topic, number)] = order[turn % len(order)]
            turn += 1
    return target


def ranges(
    topics: Mapping[str, int], members: Mapping[str, frozenset[str]]
) -> dict[Partition, str]:
    """Assign one contiguous range of every topic to each member."""
    target: dict[Partition, str] = {}
    for topic, count in topics.items():
        subscribers = [name for name, wanted in members.items() if topic in wanted]
        for number in range(count if subscribers else 0):
            taker = subscribers[
                number * len(subscribers) // count if count > len(subscribers) else number
            ]
            target[Partition(topic, number)] = taker
    return target


ASSIGNORS: Mapping[str, Assignor] = {"range": ranges, "round-robin": round_robin}


@dataclass(slots=True)
class _Member:
    """A member of a group.

    Attributes:
        topics: the topics that the member subscribes to.
        instance: name of its static membership; None for a dynamic membership.
        last_poll: time of its last poll, in seconds.
    """

    topics: frozenset[str]
    instance: str | None
    last_poll: float


class ConsumerGroup:
    """One consumer group.

    Attributes:
        generation: increases with every change of members or topics.
        committed: the offsets that members committed, for tools that show the lag.
    """

    def __init__(self, name: str, assignor: Assignor, session_seconds: float) -> None:
        self.generation = 0
        self.committed: dict[Partition, int] = {}
        self._name = name
        self._assignor = assignor
        self._session = session_seconds
        self._members: dict[str, _Member] = {}
        # Members whose static membership another client has taken; their polls raise an error.
        self._fenced: set[str] = set()
        self._owners: dict[Partition, str] = {}
        self._target: dict[Partition, str] = {}
        self._topics: dict[str, int] = {}
        self._joined = 0

    def join(self, topics: frozenset[str], instance: str | None, now: float) -> str:
        """Add a member, or replace the member with the same instance; return the new member id."""
        self._joined += 1
        member = f"{instance or 'member'}-{self._joined}"
        previous = next(
            (m for m, s in self._members.items() if instance and s.instance == instance), ""
        )
        if not previous:
            self._members[member] = _Member(topics, instance, now)
            self._rebalance()
            return member
        self._fenced.add(previous)
        same_topics = self._members[previous].topics == topics
        self._members = {
            (member if name == previous else name): state for name, state in self._members.items()
        }
        self._members[member] = _Member(topics, instance, now)
        self._owners = {p: member if o == previous else o for p, o in self._owners.items()}
        self._target = {p: member if o == previous else o for p, o in self._target.items()}
        if not same_topics:
            self._rebalance()
        return member

    def change_topics(self, member: str, topics: frozenset[str]) -> None:
        """Let a member subscribe to other topics; an unknown member changes nothing."""
        state = self._members.get(member)
        if state is not None and state.topics != topics:
            state.topics = topics
            self._rebalance()

    def remove(self, member: str) -> None:
        """Remove a member and free its partitions; an unknown member changes nothing."""
        if self._members.pop(member, None) is not None:
            self._owners = {p: o for p, o in self._owners.items() if o != member}
            self._rebalance()

    def sync(
        self, member: str, topics: Mapping[str, int], now: float
    ) -> frozenset[Partition] | None:
        """Handle one poll of a member."""
        if member in self._fenced:
            raise FatalError(f"group {self._name}: another client took the membership {member}")
        self._expire(now, spare=member)
        state = self._members.get(member)
        if state is None:
            return None
        state.last_poll = now
        self._update_topics(topics)
        for partition, owner in list(self._owners.items()):
            if owner == member and self._target.get(partition) != member:
                del self._owners[partition]
        for partition, taker in self._target.items():
            if taker == member:
                self._owners.setdefault(partition, member)
        return self.owned(member)

    def owned(self, member: str) -> frozenset[Partition]:
        """Return the partitions that belong to this member."""
        return frozenset(p for p, owner in self._owners.items() if owner == member)

    def members(self) -> int:
        """Return the number of members."""
        return len(self._members)

    def _update_topics(self, topics: Mapping[str, int]) -> None:
        """Rebalance if a subscribed topic was created, deleted or extended."""
        wanted: set[str] = set().union(*(state.topics for state in self._members.values()))
        subscribed = {name: count for name, count in topics.items() if name in wanted}
        if subscribed != self._topics:
            self._topics = subscribed
            self._rebalance()

    def _expire(self, now: float, spare: str) -> None:
        """Remove every member except ``spare`` that has not polled for the session time."""
        expired = [
            name
            for name, state in self._members.items()
            if now - state.last_poll > self._session and name != spare
        ]
        for member in expired:
            self.remove(member)

    def _rebalance(self) -> None:
        self.generation += 1
        wanted = {name: state.topics for name, state in self._members.items()}
        self._target = self._assignor(self._topics, wanted)
        exists = self._exists
        self._owners = {p: owner for p, owner in self._owners.items() if exists(p)}

    def _exists(self, partition: Partition) -> bool:
        return partition.number < self._topics.get(partition.topic, 0)


def assignor_named(name: str) -> Assignor:
    """Return the assignor of this name."""
    if name not in ASSIGNORS:
        raise FatalError(f"assignor must be one of {_listed(ASSIGNORS)}, not {name!r}")
    return ASSIGNORS[name]


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))
