"""Repair of a member that reads nothing while it joins its group again.

Fault: a cooperative member keeps its partitions during a join, but kafka-python's polls wait for
the join and do not fetch.
Effect: a change of the group stops every member until the slowest one has joined and the leader
has assigned the partitions. A member that has stopped without leaving is waited for until its
session ends.
Repair: while a join is on its way, polls fetch the partitions that the member keeps. They do so for
at most a session: a join that takes longer may belong to a member that the group has expelled.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from kafka import KafkaConsumer

_LOOK_MS = 50.0
"""Longest wait for records, or for the beginning of a join, before a poll looks at the join."""


class JoinWatch:
    """Decides whether a poll waits for a join or reads meanwhile."""

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
        """Return the seconds until the membership needs a poll again."""
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
    """Let polls of a member read its partitions while it joins again."""
    watch = JoinWatch(consumer)
    consumer._coordinator.poll = watch.poll
    consumer._coordinator.time_to_next_poll = watch.time_to_next_poll
