"""Ticks that the broker refuses: how long a worker tolerates that."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from calmstream.broker.transport import Partition
from calmstream.common.errors import FatalError, RecoverableError
from calmstream.consumer.tally.writing.ticks import Ticker
from tests.support.clock import ManualClock
from tests.support.producer import ScriptedSink
from tests.support.tally import small_plan
from tests.support.tally_bench import worker_context

ONE, OTHER = Partition("t", 0), Partition("t", 1)
STALL = 20.0


def fold(next_close: int = 0) -> Any:
    return SimpleNamespace(admission=SimpleNamespace(next_close=next_close))


class Bench:
    def __init__(self) -> None:
        self.clock = ManualClock(wall_ms=1)
        self.sink = ScriptedSink(lambda _: None)
        self.folds: dict[Partition, Any] = {ONE: fold()}
        context = worker_context(small_plan(), self.clock, stall_seconds=STALL)
        self.ticker = Ticker(context, self.sink, lambda: None)  # type: ignore[arg-type]

    def turn(self, seconds: float = 1.0) -> int:
        self.clock.advance(seconds)
        before = len(self.sink.sends)
        self.ticker.turn(self.folds, lambda _: True)
        return len(self.sink.sends) - before

    def settle(self, outcome: int | RecoverableError) -> None:
        self.sink.deliveries[-1].outcome = outcome


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_a_tick_under_way_is_not_doubled_and_is_waited_for_as_long_as_a_stall(bench: Bench) -> None:
    assert bench.turn() == 1
    assert bench.turn(STALL) == 0
    with pytest.raises(FatalError, match="a tick was not acknowledged for 20 s"):
        bench.turn()


def test_one_that_waits_holds_up_no_other(bench: Bench) -> None:
    bench.folds[OTHER] = fold()
    assert bench.turn() == 2
    for _ in range(5):
        bench.settle(0)
        assert bench.turn() == 1
    assert bench.sink.partitions == [0, 1, 1, 1, 1, 1, 1]


def test_ticks_that_fail_are_repeated_for_as_long_as_a_stall(bench: Bench) -> None:
    for _ in range(10):
        assert bench.turn(2.0) == 1
        bench.settle(RecoverableError("not enough replicas"))
    with pytest.raises(FatalError, match="ticks fail for 20 s: not enough replicas"):
        bench.turn(2.1)


@pytest.mark.parametrize("how", ["taken", "closed by a record"])
def test_what_failed_before_is_forgotten_once_time_passes_again(bench: Bench, how: str) -> None:
    bench.turn()
    bench.settle(RecoverableError("not enough replicas"))
    if how == "taken":
        bench.turn()
        bench.settle(0)
        bench.turn()
        bench.settle(0)
    else:
        bench.folds[ONE] = fold(10**9)
        bench.turn()
        bench.folds[ONE] = fold()
    bench.turn(10 * STALL)
    bench.settle(RecoverableError("not enough replicas"))
    assert bench.turn() == 1


def test_a_released_partition_gets_a_tick_again_after_the_interval(bench: Bench) -> None:
    assert bench.turn() == 1
    bench.ticker.drop([ONE])
    assert bench.turn(0.9) == 0, "the time of its last tick is still known"
    assert bench.turn(0.1) == 1, "the tick before the release is not waited for"


def test_failures_before_a_release_do_not_count_after_it(bench: Bench) -> None:
    bench.turn()
    bench.settle(RecoverableError("not enough replicas"))
    bench.turn()
    bench.ticker.drop([ONE])
    bench.turn(10 * STALL)
    bench.settle(RecoverableError("not enough replicas"))
    assert bench.turn() == 1
