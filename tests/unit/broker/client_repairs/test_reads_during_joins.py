"""Check that a member reads the partitions that it keeps while it joins again."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from kafka import KafkaConsumer
from kafka.util import Timer

from calmstream.broker.kafka.client_repairs.members import JoinWatch, read_during_joins

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
    assert member.fetches == 0, "the fault is gone: delete reads_during_joins.py"


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
