"""Check the output of inspect against what was written to the topics."""

from __future__ import annotations

import pytest

from calmstream.common.errors import FatalError
from calmstream.consumer.operations.inspect import inspect
from tests.support.tally import at, batch_id, small_plan
from tests.support.tally_bench import Stage


def test_lag_clock_windows_and_rejects_are_shown() -> None:
    stage = Stage(small_plan(groups=2))
    worker = stage.worker()
    stage.turns(worker, count=1)
    for cell in range(3):
        stage.batch(0, [cell, 0, 1])
    stage.batch(0, [1], group=1)
    stage.send(batch_id(1), b"{")
    stage.turns(worker)
    stage.batch(0, [2])
    inspection = inspect(stage.plan, stage.broker, stage.names, stage.clock)
    first, second = inspection.partitions
    assert (first.reports, first.lag, first.next_offset, first.resume_from) == (9, 1, 4, 0)
    assert (second.reports, second.lag) == (1, 0)
    assert first.clock >= at(0)
    assert first.open_windows == (0,)
    assert inspection.rejected == {"undecodable": 1}
    assert inspection.dead_letters == 1


def test_closed_windows_are_counted_where_every_partition_closed_them() -> None:
    stage = Stage(small_plan(partitions=2))
    worker = stage.worker()
    stage.turns(worker)
    stage.move_to(14)
    stage.turns(worker, count=12)
    inspection = inspect(stage.plan, stage.broker, stage.names, stage.clock)
    assert inspection.windows.closed_everywhere == 1
    assert inspection.windows.planned == 4


def test_a_missing_topic_is_named_with_the_remedy() -> None:
    stage = Stage(small_plan())
    stage.topics.delete([stage.names.snapshots])
    with pytest.raises(FatalError, match="snapshots does not exist; create it"):
        inspect(stage.plan, stage.broker, stage.names, stage.clock)


def test_windows_with_kept_counts_are_shown() -> None:
    stage = Stage(small_plan(groups=2))
    stage.batch(0, [1, 2])
    stage.finish()
    found = inspect(stage.plan, stage.broker, stage.names, stage.clock)
    assert (found.windows.final, found.windows.kept) == (4, 4)
    stage.topics.delete([stage.names.counts])
    with pytest.raises(FatalError, match="counts does not exist"):
        inspect(stage.plan, stage.broker, stage.names, stage.clock)
