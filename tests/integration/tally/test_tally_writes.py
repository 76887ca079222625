"""The order of a worker's writes, and the ticks that close windows without reports."""

from __future__ import annotations

import threading

import pytest

from calmstream.broker.transport import Partition
from calmstream.common.errors import FatalError, RecoverableError
from calmstream.consumer.runtime.context import StopRequested
from calmstream.consumer.tally import worker as tally
from calmstream.estimators.wire.batch import TICK
from calmstream.estimators.wire.state import encode_state, parse_key
from tests.support.clock import ManualClock
from tests.support.faulty_broker import SendFault
from tests.support.tally import at, batch_id, small_plan
from tests.support.tally_bench import Stage, assert_state_is_the_log, sample


def test_no_checkpoint_passes_an_unacknowledged_dead_letter() -> None:
    stage = Stage(small_plan())
    worker = stage.worker()
    stage.turns(worker, count=1)
    stage.broker.stall(Partition(stage.names.dead_letters, 0))
    stage.send(batch_id(1), b"{")
    with pytest.raises(FatalError, match="not acknowledged"):
        stage.turns(worker, count=10)
    assert stage.states() == []
    worker.abandon()
    stage.broker.release(Partition(stage.names.dead_letters, 0))
    again = stage.worker()
    stage.turns(again)
    assert stage.states()[-1].next_offset == 1


def test_the_closed_record_comes_before_the_partition_record_that_lets_it_go() -> None:
    stage = Stage(small_plan())
    worker = stage.worker()
    for seconds in range(0, 60, 2):
        stage.move_to(seconds + 0.7)
        stage.batch(min(seconds // 10, 3), [1])
        stage.turns(worker, count=3, step=0.3)
    last_closed = -1
    for r in stage.state_records():
        _, _, window = parse_key(r.key)
        if window is not None:
            last_closed = window
        else:
            state = next(s for s in stage.states() if encode_state(stage.plan, s) == r.value)
            assert state.closed_through <= last_closed
    assert last_closed == 3


@pytest.mark.parametrize("fault", [SendFault.FAIL, SendFault.LOSE_ACK, SendFault.DUPLICATE])
def test_passing_write_failures_are_retried(fault: SendFault) -> None:
    stage = Stage(small_plan())
    worker = stage.worker()
    stage.turns(worker, count=1)
    stage.broker.faults.plan(stage.names.dead_letters, fault, fault)
    stage.broker.faults.plan(stage.names.state, fault, fault, fault)
    stage.send(batch_id(1), b"{")
    stage.move_to(14)
    stage.batch(1, [1])
    stage.turns(worker)
    assert_state_is_the_log(stage)
    assert {(letter.partition, letter.offset) for letter, _ in stage.dead_letters()} == {(0, 0)}
    assert {c.window for c in stage.closed()} == {0}
    if fault is not SendFault.DUPLICATE:
        assert sample(worker, "send_retries_total") >= 4


def test_reading_pauses_while_too_many_writes_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tally, "MAX_WRITES", 10)
    stage = Stage(small_plan(), {"retry_seconds": 1000.0})
    worker = stage.worker(poll_records=5, checkpoint_seconds=600)
    stage.turns(worker, count=1)
    letters = Partition(stage.names.dead_letters, 0)
    stage.broker.stall(letters)
    for _ in range(100):
        stage.send(batch_id(1), b"{")
    stage.turns(worker, count=30, step=0.01)
    read = sample(worker, "records_read_total")
    assert 10 <= read <= 15
    stage.broker.release(letters)
    stage.turns(worker, count=60, step=0.01)
    assert sample(worker, "records_read_total") == 100


def test_the_counter_of_checkpoints_counts_the_partitions_that_advanced() -> None:
    stage = Stage(small_plan(partitions=3))
    worker = stage.worker(checkpoint_seconds=600)
    for partition in range(2):
        stage.batch(0, [1, 2], partition=partition)
    stage.turns(worker, count=4)
    assert sample(worker, "checkpoints_total") == 0
    for _ in range(2):
        worker.checkpoint()
        assert sample(worker, "checkpoints_total") == 2
    stage.batch(0, [3], partition=2)
    stage.turns(worker, count=1)
    worker.checkpoint()
    assert sample(worker, "checkpoints_total") == 3
    worker.finish()


def test_only_a_checkpoint_with_a_deadline_goes_on_when_the_worker_is_asked_to_stop() -> None:
    stage, stop = Stage(small_plan()), threading.Event()
    worker = stage.worker(checkpoint_seconds=600, retry_seconds=60.0)
    worker.abandon()
    worker.start(stop)
    stage.batch(0, [1])
    stage.turns(worker, count=4)
    stage.broker.stall(Partition(stage.names.state, 0))
    stop.set()
    with pytest.raises(StopRequested):
        worker.checkpoint()
    with pytest.raises(RecoverableError, match="not acknowledged in time"):
        worker.checkpoint(deadline=stage.clock.monotonic() + 1.0)
    stage.broker.release(Partition(stage.names.state, 0))
    worker.finish()
    assert stage.states()[-1].next_offset == 1


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


def test_a_gap_of_very_many_windows_keeps_the_session_and_closes_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tally, "MAX_WRITES", 100)
    stage = Stage(small_plan(windows=3000, window=1, grace=0, skew=0))
    worker = stage.worker()
    stage.turns(worker, count=1)
    stage.move_to(2999.5)
    stage.batch(2999, [1])
    stage.turns(worker, count=10)
    assert [c.window for c in stage.closed()] == list(range(3000))  # the last one by a tick
    assert_state_is_the_log(stage)
