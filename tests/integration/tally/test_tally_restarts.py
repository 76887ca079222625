"""Check that counts survive restarts on the in-process broker.

The restarts are clean stops, crashes, workers that write after they lost a partition, and logs that
are read twice.
"""

from __future__ import annotations

import pytest

from calmstream.common.errors import FatalError
from tests.support.tally import small_plan
from tests.support.tally_bench import Stage, assert_state_is_the_log, sample


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
