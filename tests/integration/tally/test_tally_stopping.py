"""Check what survives when workers stop, restart, hand partitions over or are read again."""

from __future__ import annotations

import threading
from collections.abc import Iterable

import pytest

from calmstream.broker.in_process.readers import InProcessGroupReader
from calmstream.broker.transport import Partition
from calmstream.common.clock import SystemClock
from calmstream.common.errors import FatalError, RecoverableError
from calmstream.consumer.runtime.service import Alone
from calmstream.consumer.tally.worker import TallyWorker
from tests.support.clock import ManualClock
from tests.support.service.processes import until
from tests.support.tally import at, batch_id, small_plan
from tests.support.tally_bench import Stage, assert_state_is_the_log, sample


def test_run_stops_within_its_budget_and_checkpoints() -> None:
    plan = small_plan()
    stage = Stage(plan)
    stage.broker._cluster.clock = lambda: at(1)
    worker = stage.worker(clock=_Shifted(at(1)), checkpoint_seconds=600)
    worker.abandon()
    stop = threading.Event()
    thread = threading.Thread(target=Alone(worker).run, args=(stop,))
    thread.start()
    stage.batch(0, [3])
    until("it is counted", lambda: sample(worker, "reports_accepted_total") == 1)
    stop.set()
    thread.join(20)
    assert not thread.is_alive()
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
    thread = threading.Thread(target=Alone(worker).run, args=(stop,))
    thread.start()
    until("it restores", lambda: worker.health.readiness().detail == "restoring")
    stop.set()
    thread.join(60)
    assert not thread.is_alive()


def test_a_broker_that_restarts_while_a_worker_joins_does_not_end_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stage = Stage(small_plan())
    subscribe, asked = InProcessGroupReader.subscribe, []

    def away_at_first(reader: InProcessGroupReader, topics: Iterable[str]) -> None:
        asked.append(reader)
        if len(asked) < 3:
            raise RecoverableError("looking up topics: the broker is not ready")
        subscribe(reader, topics)

    monkeypatch.setattr(InProcessGroupReader, "subscribe", away_at_first)
    worker = stage.worker()
    assert len(asked) == 3
    stage.batch(0, [3])
    stage.turns(worker)
    assert sample(worker, "reports_accepted_total") == 1


def test_a_record_an_hour_ahead_stops_the_worker_before_it_is_folded() -> None:
    stage = Stage(small_plan())
    worker = stage.worker(clock=ManualClock(at(0) - 3_700_000, stage.clock.seconds))
    stage.batch(0, [1])
    with pytest.raises(FatalError, match="an hour ahead"):
        stage.turns(worker, count=3, step=0.0)
    assert worker.folds[stage.input()].next_offset == 0
    assert stage.state_records() == []


def test_a_revoked_partition_is_saved_on_the_way_out() -> None:
    stage = Stage(small_plan(partitions=2), {"checkpoint_seconds": 600.0})
    first = stage.worker()
    stage.turns(first, count=1)
    for partition in (0, 1):
        for cell in range(3):
            stage.batch(0, [cell], partition=partition)
    stage.turns(first, count=2)
    assert stage.states(0) == stage.states(1) == []
    second = stage.worker()
    stage.turns(first, second, count=6, step=0.01)
    saved = [number for number in (0, 1) if stage.states(number)]
    assert len(saved) == 1, "one partition moved, one stayed"
    assert stage.states(saved[0])[-1].next_offset == 3
    assert sample(second, "records_read_total") == 0, "nothing was read twice"
    second.finish()
    first.finish()
    for number in (0, 1):
        assert_state_is_the_log(stage, number)


def test_a_hand_over_waits_for_dead_letters_but_not_for_ever() -> None:
    """Check that the next owner repeats a write that is not acknowledged in time."""
    stage = Stage(small_plan(partitions=2), {"checkpoint_seconds": 600.0, "retry_seconds": 900.0})
    first = stage.worker()
    stage.turns(first, count=1)
    stage.broker.stall(Partition(stage.names.dead_letters, 0))
    for partition in (0, 1):
        stage.send(batch_id(partition), b"{", partition=partition)
    stage.turns(first, count=2)
    second = stage.worker()
    stage.turns(first, second, count=6, step=0.01)
    assert stage.states(0) == stage.states(1) == []
    stage.broker.release(Partition(stage.names.dead_letters, 0))
    stage.turns(first, second, count=6, step=0.01)
    second.finish()
    first.finish()
    for number in (0, 1):
        assert_state_is_the_log(stage, number)
    assert {letter.partition for letter, _ in stage.dead_letters()} == {0, 1}


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


def test_records_read_a_second_time_are_ignored() -> None:
    stage = Stage(small_plan())
    worker = stage.worker()
    stage.batch(0, [1])
    stage.turns(worker)
    worker.membership.reader.seek(stage.input(), 0)
    stage.batch(0, [2])
    stage.turns(worker)
    assert sample(worker, "records_read_total") == 2
    assert sample(worker, "rejections_total") == 0
    assert_state_is_the_log(stage)


def test_a_plan_is_over_when_every_partition_is_counted_not_when_ones_own_are() -> None:
    stage = Stage(small_plan(partitions=2))
    first, second = stage.worker(), stage.worker()
    stage.turns(first, second, count=12)
    assert len(first.folds) == len(second.folds) == 1
    stage.batch(0, [3])
    stage.move_to(60)
    stage.turns(second, count=400)  # the first one hangs
    assert all(
        fold.admission.closed_through == stage.plan.windows - 1 for fold in second.folds.values()
    )
    assert not second.over()
    first.finish()
    stage.turns(second, count=400)
    assert second.over()
