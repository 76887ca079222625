"""Check a worker that waits for the broker: it sends heartbeats, and stops when requested."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from calmstream.common.clock import ManualClock
from calmstream.consumer.runtime.health import RoleHealth
from calmstream.consumer.runtime.worker import StopRequested
from calmstream.consumer.tally.waiting import KeepAlive


class Heartbeats:
    """A membership that counts its heartbeats."""

    def __init__(self) -> None:
        self.count = 0

    def keep_alive(self) -> None:
        self.count += 1


def test_a_wait_sends_heartbeats_and_shows_that_the_loop_is_alive() -> None:
    clock, beats, stop = ManualClock(), Heartbeats(), threading.Event()
    health = RoleHealth("tally", clock, silence_seconds=5.0)
    member: Any = beats
    keep_alive = KeepAlive(member, health, stop)
    for count, wait in enumerate((keep_alive.beat, keep_alive.beat_or_stop), 1):
        clock.advance(6)
        assert not health.live().well
        wait()
        assert (beats.count, health.live().well) == (count, True)


def test_only_a_wait_that_may_stop_ends_when_the_worker_is_asked_to_stop() -> None:
    beats, stop = Heartbeats(), threading.Event()
    member: Any = beats
    keep_alive = KeepAlive(member, RoleHealth("tally", ManualClock()), stop)
    stop.set()
    with pytest.raises(StopRequested):
        keep_alive.beat_or_stop()
    keep_alive.beat()
    assert beats.count == 1
