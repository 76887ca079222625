"""Check that a call that takes long holds up no other."""

from __future__ import annotations

import threading
import time

from calmstream.consumer.plans.lanes import Lanes, Task
from calmstream.consumer.publish.estimate_pool import HEAVY_SECONDS, EstimatePool
from tests.support.clock import ManualClock

DEADLINE = 30.0


def _until_done(*tasks: Task) -> None:
    deadline = time.monotonic() + DEADLINE
    while not all(task.done for task in tasks):
        assert time.monotonic() < deadline
        time.sleep(0.001)


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
    assert quick.more
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
    assert isinstance(task.error, ValueError)


def test_heavy_plans_leave_one_thread_to_the_others() -> None:
    clock = ManualClock()
    pool = EstimatePool(clock, 2)
    done: list[str] = []
    ended = threading.Condition()

    def note(key: str) -> None:
        with ended:
            done.append(key)
            ended.notify_all()

    pool.done = note

    def wait_for(number: int) -> None:
        with ended:
            assert ended.wait_for(lambda: len(done) >= number, DEADLINE)

    for number, key in enumerate(("heavy", "heavier")):
        pool.start(key, lambda: clock.advance(HEAVY_SECONDS + 1))
        wait_for(number + 1)
    gates = {key: threading.Event() for key in ("heavy", "heavier", "light")}
    for key, gate in gates.items():
        pool.start(key, lambda gate=gate: gate.wait(DEADLINE))  # type: ignore[misc]
    gates["light"].set()
    wait_for(3)
    assert done[2] == "light", "it does not wait for the second heavy plan"
    gates["heavier"].set()
    gates["heavy"].set()
    wait_for(5)
    assert sorted(done[3:]) == ["heavier", "heavy"]


def test_the_plan_with_the_shortest_last_estimate_is_next() -> None:
    clock, order = ManualClock(), []
    pool = EstimatePool(clock, 2)
    ended = threading.Event()
    for key, seconds in (("slow", 0.9), ("quick", 0.1)):
        ended.clear()
        pool.done = lambda _key: ended.set()
        pool.start(key, lambda seconds=seconds: clock.advance(seconds))  # type: ignore[misc]
        assert ended.wait(DEADLINE)
    gates, ends = [threading.Event() for _ in range(2)], threading.Semaphore(0)
    pool.done = lambda _key: ends.release()
    for key, gate in zip("ab", gates, strict=True):
        pool.start(key, lambda gate=gate: gate.wait(DEADLINE))  # type: ignore[misc]
    for key in ("slow", "quick"):
        pool.start(key, lambda key=key: order.append(key))  # type: ignore[misc]
    gates[0].set()  # one thread is free, so that the two run one after the other
    for _ in range(3):
        assert ends.acquire(timeout=DEADLINE)
    assert order == ["quick", "slow"]
    gates[1].set()
    assert ends.acquire(timeout=DEADLINE)


def test_plans_that_always_want_more_do_not_hold_up_a_heavy_one() -> None:
    clock, gate, order = ManualClock(), threading.Event(), list[str]()
    pool, ends = EstimatePool(clock, 1), threading.Semaphore(0)
    pool.done = lambda _key: ends.release()
    pool.start("heavy", lambda: clock.advance(HEAVY_SECONDS + 1))
    assert ends.acquire(timeout=DEADLINE)

    def light() -> None:
        order.append("light")
        if len(order) < 20:
            pool.start("light", light)

    pool.start("other", lambda: gate.wait(DEADLINE) and None)
    pool.start("heavy", lambda: order.append("heavy"))
    pool.start("light", light)
    gate.set()
    for _ in range(21):
        assert ends.acquire(timeout=DEADLINE)
    assert order.index("heavy") <= 2
