"""Repair of a consumer that looks at every partition in every poll.

Fault: each poll of kafka-python goes over all assigned partitions several times, to find those
without a position or with an outdated one. It does so once more to build a fetch request, although
the broker keeps a fetch session and needs the changes only.
Effect: a member with 2,000 partitions uses a tenth of a core while no record comes. While records
come, each poll takes tens of milliseconds.
Repair: the states of the partitions note their changes. A poll looks at the partitions that have
changed; after new metadata, at all of them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

from kafka import KafkaConsumer
from kafka.consumer.fetcher import FetchRequestData, FetchSessionHandler
from kafka.consumer.subscription_state import TopicPartitionState


def look_at_changes_only(consumer: KafkaConsumer) -> None:
    """Let the polls of a consumer look at changed partitions only; it must be new."""
    subscription, fetcher = consumer._subscription, consumer._fetcher
    states = _States(subscription)
    positions = _Positions(subscription, fetcher)
    fetches = _Fetches(subscription, fetcher)
    assert not subscription.assignment, "only a new consumer can be repaired"
    subscription.assignment = _Assignment((states.changed, positions.changed, fetches.changed))
    subscription.partitions_needing_reset = states.needing_reset
    subscription.partitions_needing_validation = states.needing_validation
    subscription.has_all_fetch_positions = states.all_have_positions
    fetcher.maybe_validate_positions = positions.validate
    fetcher._fetchable_partitions = fetches.fetchable
    fetcher._session_handlers = fetches.sessions
    fetcher._create_fetch_requests = fetches.create
    note_leader = fetcher._maybe_update_current_leader

    def note_leader_and_change(partition: Any, data: Any) -> None:
        note_leader(partition, data)
        positions.changed.add(partition)
        fetches.changed.add(partition)

    fetcher._maybe_update_current_leader = note_leader_and_change


class _State(TopicPartitionState):  # type: ignore[misc]  # the client has no types
    """The client's record of a partition. A change of it notes its partition in some sets."""

    noted_in: tuple[set[Any], ...] = ()
    partition: Any = None

    def __setattr__(self, name: str, value: object) -> None:
        if name == "position":
            super().__setattr__(name, value)  # the client's property, which sets a field
        elif self.__dict__.get(name) != value:
            self.__dict__[name] = value
            for changed in self.noted_in:
                changed.add(self.partition)


class _Assignment(OrderedDict[Any, Any]):
    """The states of the assigned partitions; notes partitions that come and go."""

    def __init__(self, noted_in: tuple[set[Any], ...]) -> None:
        super().__init__()
        self._noted_in = noted_in

    def __setitem__(self, partition: Any, state: Any) -> None:
        state.__class__ = _State
        state.__dict__.update(noted_in=self._noted_in, partition=partition)
        super().__setitem__(partition, state)
        self._note([partition])

    def __delitem__(self, partition: Any) -> None:
        super().__delitem__(partition)
        self._note([partition])

    def clear(self) -> None:
        gone = list(self)
        super().clear()
        self._note(gone)

    def _note(self, partitions: list[Any]) -> None:
        for changed in self._noted_in:
            changed.update(partitions)


class _States:
    """Answers which partitions need a position."""

    def __init__(self, subscription: Any) -> None:
        self.changed: set[Any] = set()
        self._subscription = subscription
        self._resetting: set[Any] = set()
        self._validating: set[Any] = set()
        self._missing: set[Any] = set()

    def needing_reset(self) -> set[Any]:
        """Return the partitions whose position must be reset now."""
        with self._subscription._lock:
            self._look()
            states = self._subscription.assignment
            return {p for p in self._resetting if states[p].is_reset_allowed()}

    def needing_validation(self) -> set[Any]:
        """Return the partitions whose position must be validated now."""
        with self._subscription._lock:
            self._look()
            states = self._subscription.assignment
            return {p for p in self._validating if states[p].is_validation_allowed()}

    def all_have_positions(self) -> bool:
        """Return whether every partition has a position."""
        with self._subscription._lock:
            self._look()
            return not self._missing

    def _look(self) -> None:
        for partition in _taken(self.changed):
            state = self._subscription.assignment.get(partition)
            for found, holds in (
                (self._resetting, state is not None and state.awaiting_reset),
                (self._validating, state is not None and state.awaiting_validation),
                (self._missing, state is not None and not state.has_valid_position),
            ):
                (found.add if holds else found.discard)(partition)


class _Positions:
    """Marks positions whose leader has changed, so that the client validates them."""

    def __init__(self, subscription: Any, fetcher: Any) -> None:
        self.changed: set[Any] = set()
        self._subscription = subscription
        self._cluster = fetcher._manager.cluster
        self._seen: object = None

    def validate(self) -> None:
        """Look at the positions that have changed; after new metadata, at all."""
        metadata = self._cluster._partitions  # new metadata is a new object
        if metadata is not self._seen:
            self._seen = metadata
            self.changed.update(self._subscription.assigned_partitions())
        for partition in list(_taken(self.changed)):
            epoch = self._cluster.leader_epoch_for_partition(partition)
            self._subscription.maybe_validate_position_for_current_leader(partition, epoch)


class _Fetches:
    """Builds fetch requests from the partitions that have changed.

    A partition is *settled* when exactly the fetch session that should contain it does. Settled
    partitions are not looked at until they change.
    """

    def __init__(self, subscription: Any, fetcher: Any) -> None:
        self.changed: set[Any] = set()
        self.sessions = _Sessions(self)
        self.stale: set[Any] = set()
        self.placed: set[Any] = set()
        self._subscription = subscription
        self._fetcher = fetcher
        self._create = fetcher._create_fetch_requests
        self._waiting: set[Any] = set()
        self._seen: object = None

    def create(self) -> dict[Any, tuple[Any, Any]]:
        """Return the request of each node to which one can be sent; see the client's method."""
        self._note_changes()
        self.stale, self.placed = set(_taken(self.changed)), set()
        requests = self._create()
        sessions = [session.session_partitions for session in self.sessions.values()]
        for partition in self.stale:
            holding = sum(partition in session for session in sessions)
            wanted = self._wanted(partition)
            if holding != wanted or (wanted and partition not in self.placed):
                self.changed.add(partition)
        return {
            node: (request, _Offsets(self.sessions[node].session_partitions))
            for node, (request, _) in requests.items()
        }

    def fetchable(self) -> list[Any]:
        """Return the changed partitions to fetch, and one settled partition of each session.

        Because of the settled one, the client builds a request also if nothing has changed.
        """
        found = [partition for partition in self.stale if self._wanted(partition)]
        for session in self.sessions.values():
            settled = (p for p in session.session_partitions if p not in self.stale)
            found += [partition for partition in (next(settled, None),) if partition is not None]
        return found

    def _wanted(self, partition: Any) -> bool:
        state = self._subscription.assignment.get(partition)
        return state is not None and state.is_fetchable() and partition not in self._waiting

    def _note_changes(self) -> None:
        """Note partitions whose records begin or end to wait, and all after new metadata."""
        metadata = self._fetcher._manager.cluster._partitions
        if metadata is not self._seen:
            self._seen = metadata
            self.changed.update(self._subscription.assigned_partitions())
        current = self._fetcher._next_partition_records
        waiting = {fetch.topic_partition for fetch in self._fetcher._completed_fetches.copy()}
        waiting |= {current.topic_partition} if current else set()
        waiting.update(self._fetcher._paused_completed_fetches)
        waiting.update(self._fetcher._paused_partition_records)
        self.changed |= waiting ^ self._waiting
        self._waiting = waiting


class _Sessions(dict[Any, Any]):
    """The fetch session of each node."""

    def __init__(self, fetches: _Fetches) -> None:
        super().__init__()
        self._fetches = fetches

    def __setitem__(self, node: Any, _session: object) -> None:
        super().__setitem__(node, _Session(node, self._fetches))


class _Session(FetchSessionHandler):  # type: ignore[misc]  # the client has no types
    """The client's record of a fetch session, brought up to date from changes."""

    def __init__(self, node: Any, fetches: _Fetches) -> None:
        super().__init__(node)
        self._fetches = fetches

    def build_next(self, next_partitions: Any) -> Any:
        """Return the next request of the session: all partitions, or those that have changed."""
        session = self.session_partitions
        forgotten = {p for p in self._fetches.stale if p in session and p not in next_partitions}
        changed = {p: info for p, info in next_partitions.items() if session.get(p) != info}
        for partition in forgotten:
            del session[partition]
        session.update(changed)
        self._fetches.placed.update(next_partitions)
        if self.next_metadata.is_full:
            return FetchRequestData(dict(session), None, self.next_metadata)
        return FetchRequestData(changed, forgotten, self.next_metadata)


class _Offsets:
    """The offsets that a request asks for, by partition."""

    def __init__(self, session: Any) -> None:
        self._session = session

    def __getitem__(self, partition: Any) -> int:
        return int(self._session[partition].fetch_offset)


def _taken(changed: set[Any]) -> Iterator[Any]:
    """Empty a set; other threads may add to it meanwhile."""
    while changed:
        yield changed.pop()
