"""The worker on the in-process broker: ticks, restarts, zombies, order of writes, and stopping."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from broker.clock import ManualClock, SystemClock
from broker.in_process import SendFault
from broker.transport import Partition, TopicSpec
from consumer.tally.worker import TallyWorker
from estimators.errors import FatalError
from estimators.wire.batch import TICK
from estimators.wire.state import PartitionState, parse_key
from tests.support.tally import at, batch_id, fields_of, small_plan
from tests.support.tally_bench import DAY_MS, Stage, sample


def ticks_in(stage: Stage, number: int = 0) -> int:
    return sum(r.value == TICK for r in stage.broker.records(stage.input(number)))


def assert_state_is_the_log(stage: Stage, number: int = 0, group: int = 0) -> None:
    """The newest partition record and every closed record equal a recount of the log."""
    fold = stage.recount(number, group)
    newest = max(stage.states(number, group), key=lambda s: s.next_offset)
    assert fields_of(newest) == fields_of(fold.state())


# Ticks


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


def test_the_first_batch_after_a_long_idle_is_accepted() -> None:
    stage = Stage(small_plan(windows=100))
    worker = stage.worker()
    stage.turns(worker)
    stage.move_to(905)  # nobody was there for ninety windows
    stage.batch(90, [2])
    stage.turns(worker)
    assert [c.window for c in stage.closed()] == list(range(90))
    assert sample(worker, "reports_accepted_total") == 1
    assert_state_is_the_log(stage)


# Restarts


@pytest.mark.parametrize("graceful", [True, False])
def test_restarts_at_every_step_equal_one_life(graceful: bool) -> None:
    script = [
        (s, p, n)
        for s, p, n in zip(range(45), [t // 10 for t in range(45)], [0, 1, 2] * 15, strict=True)
    ]
    stage = Stage(small_plan(windows=5, grace=4))
    worker = stage.worker()
    for seconds, period, number in script:
        stage.move_to(seconds + 0.6)
        stage.batch(min(period, 4), [number], number=100 + seconds // 2)  # every id twice
        if seconds % 5 == 0:
            stage.send(batch_id(seconds), b"{")
        stage.turns(worker, count=2, step=0.1)
        if seconds % 3 == 2:
            worker.finish() if graceful else worker.abandon()
            worker = stage.worker()
    stage.move_to(60)
    stage.turns(worker, count=12, step=0.5)
    assert_state_is_the_log(stage)
    assert [c.window for c in sorted(stage.closed(), key=lambda c: c.window)][-1] == 4
    total = stage.states()[-1].total
    expected = stage.recount().state().total
    assert total.tally == expected.tally
    assert dict(total.rejects) == dict(expected.rejects)
    origins = {(letter.partition, letter.offset) for letter, _ in stage.letters()}
    assert len(origins) == sum(total.rejects.values())


def test_what_was_not_checkpointed_is_read_again() -> None:
    stage = Stage(small_plan())
    worker = stage.worker(checkpoint_seconds=600)
    stage.batch(0, [1])
    stage.turns(worker)
    assert sample(worker, "reports_accepted_total") == 1
    worker.abandon()
    assert stage.states() == []
    again = stage.worker()
    stage.turns(again)
    assert sample(again, "reports_accepted_total") == 1
    assert stage.states()[-1].open[0].tally.reports == 1


def test_a_resend_after_a_restart_is_still_a_duplicate() -> None:
    stage = Stage(small_plan())
    worker = stage.worker()
    stage.batch(0, [1], number=5)
    stage.turns(worker)
    worker.finish()
    again = stage.worker()
    stage.batch(0, [1], number=5)
    stage.turns(again)
    assert sample(again, "rejections_total", reason="duplicate") == 1
    assert stage.states()[-1].open[0].tally.reports == 1


def test_a_zombies_late_checkpoint_never_wins() -> None:
    stage = Stage(small_plan(), {"session_seconds": 1000.0, "checkpoint_seconds": 600.0})
    zombie = stage.worker()
    stage.batch(0, [1])
    stage.turns(zombie)
    zombie.running.membership._reader.expire()
    heir = stage.worker()
    stage.batch(0, [2])
    stage.turns(heir)
    heir.checkpoint()
    zombie.checkpoint()  # it has not polled since, so it does not know
    offsets = [s.next_offset for s in stage.states()]
    assert offsets == [2, 1]
    heir.abandon()
    zombie.abandon()
    stage.broker.compact(stage.names.state, active=0)
    assert [s.next_offset for s in stage.states()] == [1]  # compaction kept the stale one
    third = stage.worker(checkpoint_seconds=0.5)
    stage.turns(third)
    assert_state_is_the_log(stage)
    assert stage.states()[-1].open[0].tally.counts.tolist() == [[0, 1, 1, 0]]


def test_a_stale_record_last_in_the_log_loses_to_the_largest_offset() -> None:
    stage = Stage(small_plan())
    worker = stage.worker()
    for cell in (0, 1, 2):
        stage.batch(0, [cell])
        stage.turns(worker, count=4)
    worker.abandon()
    stale = stage.state_records()[0]
    stage.sink.send(stage.names.state, stale.key, stale.value, partition=0).wait(1)
    again = stage.worker()
    again.turn()
    assert again.folds[stage.input()].next_offset == 3


def test_a_worker_without_a_poll_for_a_session_writes_nothing_and_exits() -> None:
    stage = Stage(small_plan(), {"session_seconds": 30.0})
    worker = stage.worker(checkpoint_seconds=600)
    stage.batch(0, [1])
    stage.turns(worker)
    stage.clock.advance(31)
    with pytest.raises(FatalError, match="nothing more is written"):
        worker.checkpoint()
    assert stage.state_records() == []
    with pytest.raises(FatalError, match="nothing more is written"):
        worker.finish()
    assert stage.state_records() == []


# Order of writes


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


def test_no_checkpoint_passes_an_unacknowledged_closed_record() -> None:
    stage = Stage(small_plan())
    worker = stage.worker()
    stage.turns(worker, count=1)

    def fail_closed(partition: Partition, key: bytes | None, value: bytes | None) -> Any:
        closed = partition.topic == stage.names.state and parse_key(key)[2] is not None
        return SendFault.FAIL if closed else SendFault.NONE

    stage.broker.faults.on_send = fail_closed
    stage.move_to(14)
    stage.batch(1, [1])
    with pytest.raises(FatalError, match="not acknowledged"):
        stage.turns(worker, count=10)
    assert stage.state_records() == []


def test_the_closed_record_comes_before_the_partition_record_that_lets_it_go() -> None:
    stage = Stage(small_plan())
    worker = stage.worker()
    for seconds in range(0, 60, 2):
        stage.move_to(seconds + 0.7)
        stage.batch(min(seconds // 10, 3), [1])
        stage.turns(worker, count=3, step=0.3)
    seen = -1
    for r in stage.state_records():
        _, _, window = parse_key(r.key)
        if window is not None:
            seen = window
        else:
            state = next(s for s in stage.states() if stage_value(stage, s) == r.value)
            assert state.closed_through <= seen
    assert seen == 3


def stage_value(stage: Stage, state: PartitionState) -> bytes:
    from estimators.wire.state import encode_state

    return encode_state(stage.plan, state)


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
    assert {(letter.partition, letter.offset) for letter, _ in stage.letters()} == {(0, 0)}
    assert {c.window for c in stage.closed()} == {0}
    if fault is not SendFault.DUPLICATE:
        assert sample(worker, "send_retries_total") >= 4


def test_reading_pauses_while_too_many_writes_wait() -> None:
    stage = Stage(small_plan(), {"retry_seconds": 1000.0})
    worker = stage.worker(writes_in_flight=10, poll_records=5, checkpoint_seconds=600)
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
    assert sample(worker, "dead_letters_total") == 100


# Refusals


def test_a_trimmed_log_stops_the_worker() -> None:
    stage = Stage(small_plan())
    worker = stage.worker()
    for _ in range(4):
        stage.batch(0, [1])
    stage.turns(worker)
    worker.finish()
    stage.topics.trim({stage.input(): 1})
    with pytest.raises(FatalError, match=r"starts at 1, needed from 0.*retention"):
        stage.worker().turn()


def test_a_log_trimmed_up_to_resume_from_is_fine() -> None:
    stage = Stage(small_plan())
    worker = stage.worker()
    stage.batch(0, [1])
    stage.move_to(14)
    stage.batch(1, [2])
    stage.turns(worker)
    worker.finish()
    stage.topics.trim({stage.input(): 1})
    again = stage.worker()
    again.turn()
    assert again.folds[stage.input()].next_offset == 2


def test_a_trimmed_log_without_any_state_stops_the_worker() -> None:
    stage = Stage(small_plan())
    stage.batch(0, [1])
    stage.topics.trim({stage.input(): 1})
    with pytest.raises(FatalError, match="nothing was ever counted"):
        stage.worker().turn()


def test_a_recreated_topic_stops_the_worker() -> None:
    stage = Stage(small_plan())
    worker = stage.worker()
    stage.batch(0, [1])
    stage.turns(worker)
    worker.finish()
    stage.topics.delete([stage.input().topic])
    stage.topics.create(stage.names.specs(DAY_MS))
    stage.batch(0, [1])
    with pytest.raises(FatalError, match="created again"):
        stage.worker().turn()


def test_times_of_the_sender_stop_the_worker_at_the_start() -> None:
    stage = Stage(small_plan())
    stage.topics.delete([stage.input().topic])
    stage.topics.create([TopicSpec(stage.input().topic, 1, {"retention.ms": "-1"})])
    with pytest.raises(FatalError, match="LogAppendTime"):
        stage.worker()


def test_a_record_an_hour_ahead_stops_the_worker_before_it_is_folded() -> None:
    stage = Stage(small_plan())
    worker = stage.worker(clock=ManualClock(at(0) - 3_700_000, stage.clock.seconds))
    stage.batch(0, [1])
    with pytest.raises(FatalError, match="an hour ahead"):
        stage.turns(worker, count=3, step=0.0)
    assert worker.folds[stage.input()].next_offset == 0
    assert stage.state_records() == []


def test_a_missing_topic_stops_the_worker_at_the_start() -> None:
    stage = Stage(small_plan())
    stage.topics.delete([stage.names.dead_letters])
    with pytest.raises(FatalError, match="calmstream topics"):
        stage.worker()


def test_too_short_a_retention_stops_the_worker_at_the_start() -> None:
    stage = Stage(small_plan())
    stage.topics.delete([stage.input().topic])
    stage.topics.create(stage.names.specs(60_000))
    with pytest.raises(FatalError, match=r"retention\.ms=60000"):
        stage.worker()


# Sharing work, stopping


def test_two_workers_share_partitions_and_hand_them_over() -> None:
    stage = Stage(small_plan(partitions=4, groups=2))
    first = stage.worker()
    everything = [(g, p) for g in range(2) for p in range(4)]
    for step in range(24):
        stage.move_to(step + 0.6)
        for g, p in everything:
            stage.batch(step // 10, [step % 4], partition=p, group=g)
        if step == 8:
            second = stage.worker()
        workers = [first] if step < 8 else [first, second] if step < 16 else [second]
        if step == 16:
            first.finish()
        stage.turns(*workers, count=4, step=0.05)
        if step == 12:
            assert len(first.folds) == len(second.folds) == 4
    stage.move_to(60)
    stage.turns(second, count=12, step=0.5)
    for g, p in everything:
        assert_state_is_the_log(stage, p, g)
        assert max(stage.states(p, g), key=lambda s: s.next_offset).total.tally.reports == 24


def test_run_stops_within_its_budget_and_checkpoints() -> None:
    plan = small_plan()
    stage = Stage(plan)
    clock = SystemClock()
    stage.broker._cluster.clock = lambda: at(1)
    worker = stage.worker(clock=_Shifted(at(1)), checkpoint_seconds=600)
    worker.abandon()
    stop = threading.Event()
    thread = threading.Thread(target=worker.run, args=(stop,))
    thread.start()
    stage.batch(0, [3])
    deadline = clock.monotonic() + 10
    while sample(worker, "reports_accepted_total") < 1 and clock.monotonic() < deadline:
        clock.sleep(0.01)
    began = clock.monotonic()
    stop.set()
    thread.join(20)
    assert not thread.is_alive()
    assert clock.monotonic() - began < 20
    assert stage.states()[-1].next_offset == 1
    assert worker.health.readiness().detail == "draining"


class _Shifted(SystemClock):
    """Real seconds, but the wall clock of the plan."""

    def __init__(self, wall_ms: int) -> None:
        self._wall = wall_ms

    def now_ms(self) -> int:
        return self._wall


def test_stop_during_a_restore_that_cannot_end() -> None:
    stage = Stage(small_plan())
    first = stage.worker()
    stage.batch(0, [3])
    stage.turns(first)
    first.finish()
    worker: TallyWorker = stage.worker(clock=_Shifted(at(5)), retry_seconds=600.0)
    worker.abandon()
    stage.broker.stall(Partition(stage.names.state, 0))
    stop = threading.Event()
    thread = threading.Thread(target=worker.run, args=(stop,))
    thread.start()
    assert _eventually(lambda: worker.health.readiness().detail == "restoring")
    stop.set()
    thread.join(20)
    assert not thread.is_alive()


def _eventually(happened: Any, seconds: float = 10.0) -> bool:
    clock = SystemClock()
    deadline = clock.monotonic() + seconds
    while clock.monotonic() < deadline:
        if happened():
            return True
        clock.sleep(0.01)
    return False


def test_a_gap_of_very_many_windows_keeps_the_session_and_closes_all() -> None:
    stage = Stage(small_plan(windows=3000, window=1, grace=0, skew=0))
    worker = stage.worker(writes_in_flight=100)
    stage.turns(worker, count=1)
    stage.move_to(2999.5)
    stage.batch(2999, [1])
    stage.turns(worker, count=10)
    assert [c.window for c in stage.closed()] == list(range(3000))  # the last one by a tick
    assert_state_is_the_log(stage)


def test_records_read_a_second_time_are_ignored() -> None:
    stage = Stage(small_plan())
    worker = stage.worker()
    stage.batch(0, [1])
    stage.turns(worker)
    worker.running.membership._reader.seek(stage.input(), 0)
    stage.batch(0, [2])
    stage.turns(worker)
    assert sample(worker, "records_read_total") == 2
    assert sample(worker, "rejections_total") == 0
    assert_state_is_the_log(stage)
