"""Check that windows close by ticks when no report arrives.

A tick is a record without reports that a worker sends to move the time of a partition on.
"""

from __future__ import annotations

from calmstream.estimators.wire.batch import TICK
from tests.support.clock import ManualClock
from tests.support.tally import at, small_plan
from tests.support.tally_bench import Stage, assert_state_is_the_log, sample


def ticks_in(stage: Stage, number: int = 0) -> int:
    return sum(r.value == TICK for r in stage.broker.records(stage.input(number)))


def test_an_idle_partition_closes_every_window_in_time() -> None:
    stage = Stage(small_plan())
    worker = stage.worker()
    while stage.clock.wall_ms < at(60):
        stage.turns(worker, count=1, step=0.5)
    assert [c.window for c in stage.closed()] == [0, 1, 2, 3]
    assert all(c.total.tally.reports == 0 for c in stage.closed())
    assert ticks_in(stage) == 4
    assert sample(worker, "ticks_total") == 4
    assert stage.states()[-1].closed_through == 3


def test_a_clock_ahead_of_the_brokers_ticks_once_a_second_and_changes_nothing() -> None:
    stage = Stage(small_plan())
    fast = ManualClock(at(900), stage.clock.seconds)
    worker = stage.worker(clock=fast)
    stage.batch(0, [1, 2])
    for _ in range(100):
        worker.turn()
        stage.clock.advance(0.1)
        fast.advance(0.1)
    assert 9 <= ticks_in(stage) <= 11
    worker.turn()
    worker.checkpoint()
    state = stage.states()[-1]
    assert state.closed_through == -1
    assert not state.open[0].rejects
    assert state.open[0].tally.reports == 2
    assert_state_is_the_log(stage)


def test_no_tick_while_the_partition_is_not_read_to_its_end() -> None:
    stage = Stage(small_plan())
    worker = stage.worker(poll_records=1)
    stage.turns(worker, count=2)
    stage.move_to(14)
    for _ in range(5):
        stage.batch(1, [0])
    before = ticks_in(stage)
    worker.turn()
    assert ticks_in(stage) == before


def test_a_gap_of_very_many_windows_keeps_the_session_and_closes_all() -> None:
    stage = Stage(small_plan(windows=3000, window=1, grace=0, skew=0))
    worker = stage.worker(writes_in_flight=100)
    stage.turns(worker, count=1)
    stage.move_to(2999.5)
    stage.batch(2999, [1])
    stage.turns(worker, count=10)
    assert [c.window for c in stage.closed()] == list(range(3000))  # the last one by a tick
    assert_state_is_the_log(stage)
