"""Check that workers share partitions, hand them over, and stop in a bounded time.

They run on the in-process broker.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any

import pytest

from calmstream.broker.in_process.readers import InProcessGroupReader
from calmstream.broker.transport import Partition
from calmstream.common.clock import SystemClock
from calmstream.common.errors import FatalError, RecoverableError
from calmstream.consumer.runtime.worker import Alone
from calmstream.consumer.tally.worker import TallyWorker
from tests.support.clock import ManualClock
from tests.support.tally import at, small_plan
from tests.support.tally_bench import Stage, sample


def test_run_stops_within_its_budget_and_checkpoints() -> None:
    plan = small_plan()
    stage = Stage(plan)
    clock = SystemClock()
    stage.broker._cluster.clock = lambda: at(1)
    worker = stage.worker(clock=_Shifted(at(1)), checkpoint_seconds=600)
    worker.abandon()
    stop = threading.Event()
    thread = threading.Thread(target=Alone(worker).run, args=(stop,))
    thread.start()
    stage.batch(0, [3])
    deadline = clock.monotonic() + 60
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
    thread = threading.Thread(target=Alone(worker).run, args=(stop,))
    thread.start()
    assert _eventually(lambda: worker.health.readiness().detail == "restoring")
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


def _eventually(happened: Any, seconds: float = 60.0) -> bool:
    clock = SystemClock()
    deadline = clock.monotonic() + seconds
    while clock.monotonic() < deadline:
        if happened():
            return True
        clock.sleep(0.01)
    return False
