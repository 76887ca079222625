"""Check the end of a plan on the in-process broker."""

from __future__ import annotations

import threading

import pytest
from structlog.testing import capture_logs

from calmstream.broker.transport import Partition
from calmstream.common.errors import FatalError
from calmstream.consumer.operations.retire import (
    FinalsWaiter,
    delete_topics,
    last_window,
    stop_admission,
)
from tests.support.tally import at, batch_id, body, small_plan
from tests.support.tally_bench import Stage


def test_after_admission_has_stopped_windows_still_close() -> None:
    stage = Stage(small_plan())
    worker = stage.worker()
    stage.batch(0, [1, 2])
    stage.turns(worker)
    stop_admission(stage.topics, stage.names)
    with pytest.raises(FatalError, match="too large"):
        stage.send(batch_id(9), body(stage.plan, 0, [1]))
    stage.move_to(60)
    stage.turns(worker, count=12)
    assert [c.window for c in stage.closed()] == [0, 1, 2, 3]
    assert stage.closed()[-1].total.tally.reports == 2


def test_the_last_window_is_the_last_that_may_have_received_anything() -> None:
    plan = small_plan(skew=2)
    assert last_window(plan, at(-3)) == -1
    assert last_window(plan, at(-2)) == 0
    assert last_window(plan, at(7.9)) == 0
    assert last_window(plan, at(8)) == 1
    assert last_window(plan, at(900)) == 3


def test_nothing_is_left_but_snapshots_and_counts() -> None:
    stage = Stage(small_plan(groups=2))
    gone = delete_topics(stage.topics, stage.names)
    assert sorted(gone) == sorted(
        [*stage.names.all_reports, stage.names.state, stage.names.dead_letters]
    )
    left = stage.topics.describe([spec.name for spec in stage.names.specs(0)])
    assert set(left) == {stage.names.snapshots, stage.names.counts}
    assert delete_topics(stage.topics, stage.names) == []
    assert delete_topics(stage.topics, stage.names, counts=True) == [stage.names.counts]


def test_finals_that_do_not_come_stop_it() -> None:
    stage = Stage(small_plan())
    awaited = FinalsWaiter(stage.plan, stage.broker, stage.names, stage.clock, 0)
    stop = threading.Event()
    stop.set()
    with pytest.raises(FatalError, match="nothing was deleted"):
        awaited.run(stop)
    stage.clock.advance(-1)
    stage.move_to(20)
    real = stage.clock.now_ms
    times = iter([real(), *[real() + 1_000_000] * 10])
    stage.clock.now_ms = lambda: next(times)  # type: ignore[method-assign]
    with pytest.raises(FatalError, match="1 finals are missing"):
        awaited.run(threading.Event())


def test_finals_without_their_counts_are_waited_for() -> None:
    stage = Stage(small_plan())
    stage.batch(0, [1, 2])
    stage.finish()
    stage.clock.advance(1000)
    through = stage.plan.windows - 1
    whole = FinalsWaiter(stage.plan, stage.broker, stage.names, stage.clock, through)
    with capture_logs() as logs:
        whole.run(threading.Event())
    assert whole.found == through + 1
    assert logs == [], "also current sets are no foreign records"
    kept = [(r.key, r.value) for r in stage.broker.records(Partition(stage.names.counts, 0))]
    stage.topics.delete([stage.names.counts])
    stage.topics.create([s for s in stage.names.specs(0) if s.name == stage.names.counts])
    for key, value in kept[1:]:
        stage.sink.send(stage.names.counts, key, value, partition=0).wait(1)
    lacking = FinalsWaiter(stage.plan, stage.broker, stage.names, stage.clock, through)
    real = stage.clock.now_ms()
    times = iter([*[real] * 4, *[real + 1_000_000] * 10])
    stage.clock.now_ms = lambda: next(times)  # type: ignore[method-assign]
    lacking.deadline_ms = lambda: real + 1000  # type: ignore[method-assign]
    with pytest.raises(
        FatalError, match=r"1 finals are missing \(1 of them lack only their counts\)"
    ):
        lacking.run(threading.Event())
