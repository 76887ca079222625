"""Check that a call that takes long holds up no other."""

from __future__ import annotations

import threading
from concurrent.futures import Future

from calmstream.consumer.plans.lanes import Lanes
from tests.support.clock import ManualClock
from tests.support.service.processes import until

DEADLINE = 30.0


def _until_done(*tasks: Future[bool]) -> None:
    until("all are done", lambda: all(task.done() for task in tasks), pause=0.001)


def test_quick_calls_share_two_threads_and_long_ones_hold_up_nobody() -> None:
    clock, gate = ManualClock(), threading.Event()
    lanes = Lanes(clock, quick=2, most=4)
    stuck = [lanes.start(lambda: gate.wait(DEADLINE)) for _ in range(2)]
    assert not lanes.free()
    assert lanes.busy()
    clock.advance(2.0)
    assert lanes.free(), "calls that take long do not count"
    assert not lanes.busy()
    quick = lanes.start(lambda: True)
    _until_done(quick)
    assert quick.result()
    stuck += [lanes.start(lambda: gate.wait(DEADLINE)) for _ in range(2)]
    clock.advance(2.0)
    assert not lanes.free(), "there is a limit"
    gate.set()
    _until_done(*stuck)
    assert lanes.free()
    before = set(threading.enumerate())
    for _ in range(20):
        _until_done(lanes.start(lambda: False))
    new = set(threading.enumerate()) - before
    assert not [thread for thread in new if thread.name == "plans"], "threads are used again"


def test_an_error_is_kept_for_the_loop() -> None:
    lanes = Lanes(ManualClock())

    def broken() -> bool:
        raise ValueError("no")

    task = lanes.start(broken)
    _until_done(task)
    assert isinstance(task.exception(), ValueError)
