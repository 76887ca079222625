"""Check that a partition without a leader is noticed in time, even if it is read to its end."""

from __future__ import annotations

import threading
from collections.abc import Collection

import pytest

from calmstream.broker.transport import Partition
from calmstream.common.errors import FatalError, RecoverableError
from calmstream.consumer.tally.log_ends import EndWatch
from tests.support.clock import ManualClock
from tests.support.service.processes import until
from tests.support.tally import small_plan
from tests.support.tally_bench import Stage, await_requests, sample

ONE, OTHER = Partition("t", 0), Partition("t", 1)
DEADLINE = 60.0


class Ends:
    """A broker that returns the log ends of all partitions except those without a leader."""

    def __init__(self) -> None:
        self.dead: set[Partition] = set()
        self.asked = 0
        self.hold = threading.Event()
        self.hold.set()
        self.clock = ManualClock()

    def watch(self, every_seconds: float = 1.0) -> EndWatch:
        return EndWatch(self, self.clock, every_seconds)  # type: ignore[arg-type]

    def log_ends(self, partitions: Collection[Partition]) -> dict[Partition, int]:
        self.asked += 1
        assert self.hold.wait(DEADLINE)
        if self.dead & set(partitions):
            raise RecoverableError("the broker did not answer in time")
        return dict.fromkeys(partitions, 7)


def test_ends_are_asked_for_after_the_interval_and_not_before() -> None:
    ends = Ends()
    watch, clock = ends.watch(10.0), ends.clock
    clock.advance(9)
    watch.turn({ONE: 0})
    assert ends.asked == 0
    assert watch.end(ONE) is None
    clock.advance(1)
    watch.turn({ONE: 0})
    until("an answer", lambda: watch.end(ONE) == 7)
    assert watch.end(OTHER) is None


def test_the_interval_starts_again_at_every_request() -> None:
    ends = Ends()
    watch, clock = ends.watch(10.0), ends.clock
    for seconds, asked in ((10, 1), (9, 1), (1, 2), (9, 2)):
        clock.advance(seconds)
        watch.turn({ONE: 0})
        until("no request", lambda: not watch._request.is_alive())
        assert ends.asked == asked


def test_the_partition_that_does_not_answer_is_found_among_those_that_do() -> None:
    ends = Ends()
    ends.dead = {OTHER}
    watch, clock = ends.watch(), ends.clock
    clock.advance(1)
    watch.turn({ONE: 0, OTHER: 0})
    until("the silent one", lambda: watch.unreachable(OTHER) and not watch.unreachable(ONE))
    assert watch.end(ONE) == 7
    ends.dead = set()

    def answered() -> bool:
        clock.advance(1)
        watch.turn({ONE: 0, OTHER: 0})
        return not watch.unreachable(OTHER)

    until("an answer", answered)


def test_a_question_that_hangs_holds_up_nothing_and_is_not_repeated_meanwhile() -> None:
    ends = Ends()
    ends.hold.clear()
    watch, clock = ends.watch(), ends.clock
    for _ in range(20):
        clock.advance(1)
        watch.turn({ONE: 0})
    until("asked", lambda: ends.asked == 1)
    ends.hold.set()
    until("an answer", lambda: watch.end(ONE) == 7)
    assert ends.asked == 1


def test_a_partition_marked_unreachable_is_reachable_only_after_the_next_answer() -> None:
    ends = Ends()
    watch, clock = ends.watch(), ends.clock

    def asked() -> bool:
        clock.advance(1)
        watch.turn({ONE: 0, OTHER: 0})
        return watch.reachable(OTHER)

    assert not watch.reachable(OTHER), "never asked"
    until("an answer", asked)
    await_requests()
    ends.hold.clear()  # a question is under way, and not about the unreachable one
    clock.advance(1)
    watch.turn({ONE: 0})
    watch.mark_unreachable([OTHER])
    assert (watch.unreachable(OTHER), watch.end(OTHER)) == (True, None)
    ends.hold.set()
    until("its end", lambda: not watch._request.is_alive())
    assert watch.end(ONE) == 7
    assert not watch.reachable(OTHER), "nobody has asked it since"
    until("an answer", asked)


def test_a_log_that_ends_below_what_was_counted_is_an_error_at_the_second_answer() -> None:
    ends = Ends()
    watch, clock = ends.watch(), ends.clock
    for counted in (8, 7, 8, 8):  # the log ends at 7; one answer alone may be a late one
        clock.advance(1)
        watch.turn({ONE: counted, OTHER: 7})
        until("an answer", lambda: not watch._request.is_alive())
    with pytest.raises(FatalError, match="ends at 7, but it was counted up to 8: the broker lost"):
        watch.turn({ONE: 8, OTHER: 7})
    watch.turn({OTHER: 7})


def test_a_worker_whose_log_lost_records_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = small_plan(windows=1, window=3600)
    stage = Stage(plan, {"topic_check_seconds": 2.0})
    worker = stage.worker()
    for number in range(3):
        stage.batch(0, [1], number=number)
    stage.turns(worker, count=10, step=0.1)
    assert sample(worker, "reports_accepted_total") == 3
    lost = {stage.input(): 1}
    monkeypatch.setattr(worker.topics, "log_ends", lambda _: lost)
    with pytest.raises(FatalError, match="ends at 1, but it was counted up to"):
        stage.turns(worker, count=10, step=1.0)
    worker.abandon()
