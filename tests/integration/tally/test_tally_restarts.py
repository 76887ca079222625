"""Check that counts survive restarts on the in-process broker.

The restarts are clean stops, crashes, workers that write after they lost a partition, and logs that
are read twice.
"""

from __future__ import annotations

import pytest

from calmstream.common.errors import FatalError
from tests.support.tally import batch_id, small_plan
from tests.support.tally_bench import Stage, assert_state_is_the_log, sample


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
    origins = {(letter.partition, letter.offset) for letter, _ in stage.dead_letters()}
    assert len(origins) == sum(total.rejects.values())


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
    worker.running.membership._reader.seek(stage.input(), 0)
    stage.batch(0, [2])
    stage.turns(worker)
    assert sample(worker, "records_read_total") == 2
    assert sample(worker, "rejections_total") == 0
    assert_state_is_the_log(stage)
