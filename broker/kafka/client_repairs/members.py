"""Repairs of members of consumer groups; docs/upstream explains each fault."""

from __future__ import annotations

import time
from collections.abc import Callable

from kafka import KafkaConsumer

_LOOK_MS = 50.0
"""Longest wait for records, or for the beginning of a join, before a poll looks at the join."""


class JoinWatch:
    """Lets a member read the partitions that it keeps while it joins its group again.

    Fault: polls wait for the join, so a change of the group stops every member until the slowest
    one has joined; one that stopped without leaving is waited for until its session ends.
    A join that takes longer than a session may belong to a member that the group has expelled.
    """

    def __init__(self, consumer: KafkaConsumer, now: Callable[[], float] = time.monotonic) -> None:
        self._coordinator = consumer._coordinator
        self._subscription = consumer._subscription
        self._now = now
        self._session = self._coordinator.config["session_timeout_ms"] / 1000
        self._task: object = None
        self._since = 0.0
        self._poll = self._coordinator.poll
        self._time_to_next_poll = self._coordinator.time_to_next_poll

    def poll(self, timeout_ms: float | None = None) -> bool:
        """Drive the membership; return whether the consumer may fetch now."""
        if self._reads():
            return True
        task = self._coordinator._join_task
        finished = task is not None and task.is_done
        if self._subscription.assignment and not finished and not self._too_long():
            timeout_ms = _LOOK_MS if timeout_ms is None else min(timeout_ms, _LOOK_MS)
        return bool(self._poll(timeout_ms=timeout_ms)) or self._reads()

    def time_to_next_poll(self) -> float:
        if self._reads():
            return _LOOK_MS / 1000
        return float(self._time_to_next_poll())

    def _reads(self) -> bool:
        """Return whether a join is on its way during which the kept partitions are read."""
        task = self._coordinator._join_task
        if task is None or task.is_done:
            self._task = None
            return False
        if task is not self._task:
            self._task, self._since = task, self._now()
        return bool(self._subscription.assignment) and not self._too_long()

    def _too_long(self) -> bool:
        return self._task is not None and self._now() - self._since > self._session


def read_during_joins(consumer: KafkaConsumer) -> None:
    watch = JoinWatch(consumer)
    consumer._coordinator.poll = watch.poll
    consumer._coordinator.time_to_next_poll = watch.time_to_next_poll


def complete_begun_joins(consumer: KafkaConsumer) -> None:
    """Let a join that has begun be a reason to join until its result has been taken.

    Fault: if a poll ends after the leader has assigned new partitions, no later poll takes the
    result. Heartbeats have stopped; the group expels the member, which does not notice.
    """
    coordinator = consumer._coordinator
    client_needs_rejoin = coordinator.need_rejoin

    def need_rejoin() -> bool:
        begun = coordinator.rejoining and consumer.subscription() is not None
        return bool(begun or client_needs_rejoin())

    coordinator.need_rejoin = need_rejoin


def keep_finished_joins(consumer: KafkaConsumer) -> None:
    """Let a poll take the result of a join that finished between two polls.

    Fault: the client drops this result and joins once more, and so must every other member;
    members that poll briefly can repeat this for minutes. It does wait for a join that is not
    finished, so a finished one is replaced by a task that returns the same result a moment later.
    """
    coordinator = consumer._coordinator
    join = coordinator.join_group_async

    async def join_or_take_result(timeout_ms: float | None = None) -> bool:
        task = coordinator._join_task
        if task is not None and task.is_done and task.succeeded():

            async def result() -> object:
                return task.value

            coordinator._join_task = coordinator._manager.call_soon(result)
        return bool(await join(timeout_ms=timeout_ms))

    coordinator.join_group_async = join_or_take_result


def forget_lost_partitions(consumer: KafkaConsumer) -> None:
    """Clear the list of owned partitions when they are lost.

    Fault: the member sends this list when it joins again, and so claims what others own by now.
    """
    for assignor in consumer._coordinator._assignors.values():
        if hasattr(assignor, "member_assignment"):  # only sticky assignors make claims
            assignor.member_assignment = None
