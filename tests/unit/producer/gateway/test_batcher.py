"""Check that the batcher merges the reports of many devices.

No report is lost or changed, and none keeps its place in the order.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from calmstream.broker.in_process import InProcessBroker, SendFault
from calmstream.broker.transport import Sink
from calmstream.common.clock import ManualClock
from calmstream.common.errors import FatalError, InvalidInput, RecoverableError
from calmstream.estimators.plan import Plan
from calmstream.estimators.plan.limits import Limits
from calmstream.estimators.randomness import SeededRandomness
from calmstream.estimators.wire.batch import decode_batch
from calmstream.producer.device.report import Report
from calmstream.producer.gateway.batcher import Batcher
from calmstream.producer.gateway.sender import Budget
from calmstream.producer.gateway.spool import Spool
from calmstream.producer.gateway.totals import Failure, Unobserved
from tests.support.producer import (
    START,
    FakeClock,
    ScriptedSink,
    broker_for,
    count,
    make_plan,
    names_of,
    records_of,
)

PLAN = make_plan()
FAST = Budget(pause=0.01, longest_pause=0.05)
LONG = 60.0


def batcher(sink: Sink, plan: Plan = PLAN, **options: object) -> Batcher:
    return Batcher(plan, names_of(plan), sink, **{"budget": FAST, "min_batch": 1, **options})  # type: ignore[arg-type]


def report(cell: int = 0, group: int = 0, period: int = 0, view: int = 0) -> Report:
    if group == 1:
        return Report(group, period, view, {"b": np.array([[cell]], np.uint8)})
    return Report(group, period, view, {"v": np.array([cell])})


def wait_until(what: object, seconds: float = LONG) -> None:
    deadline = time.monotonic() + seconds
    while not what():  # type: ignore[operator]
        assert time.monotonic() < deadline, "not within the deadline"
        time.sleep(0.005)


def sizes(broker: InProcessBroker) -> list[int]:
    """Return the reports per batch in the log, ascending."""
    return sorted(decode_batch(PLAN, g, r.key, r.value).n for g, r in records_of(broker, PLAN))


def test_the_columns_of_the_plan_are_what_the_tests_assume() -> None:
    names = [[column.name for column in m.columns] for m in PLAN.mechanisms]
    assert names == [["v"], ["b"], ["v"]]


def test_a_full_batch_leaves_at_once() -> None:
    broker = broker_for(PLAN)
    with batcher(broker.sink(), size=10, linger=LONG) as one:
        for i in range(25):
            one.add(report(i % 12))
        wait_until(lambda: len(records_of(broker, PLAN)) == 2)
        assert one.totals.reports_sent <= 20
    assert sizes(broker) == [5, 10, 10]


def test_an_incomplete_batch_leaves_after_its_linger() -> None:
    broker = broker_for(PLAN)
    with batcher(broker.sink(), size=10, linger=0.3) as one:
        time.sleep(0.05)  # the thread is idle and has to be woken
        before = time.monotonic()
        one.add(report())
        wait_until(lambda: records_of(broker, PLAN))
        assert time.monotonic() - before >= 0.29
        assert sizes(broker) == [1]


def test_a_batch_takes_reports_until_the_linger_of_its_first_is_over() -> None:
    broker, clock = broker_for(PLAN), ManualClock((START + 5) * 1000)
    with batcher(broker.sink(), size=10, linger=0.3, clock=clock) as one:
        for _ in range(3):
            one.add(report())
            clock.advance(0.1)
        wait_until(lambda: sizes(broker) == [3])


def test_groups_and_windows_do_not_mix() -> None:
    broker = broker_for(PLAN)
    with batcher(broker.sink(), linger=LONG) as one:
        for i in range(60):
            one.add(report(1, group=i % 3, period=i // 30, view=int(i % 6 == 5)))
    tallies = count(PLAN, records_of(broker, PLAN))
    assert {key: tally.reports for key, tally in tallies.items()} == {
        (g, w): 10 for g in range(3) for w in range(2)
    }
    assert tallies[2, 0].n.tolist() == [5, 5]


def test_the_rows_of_a_batch_are_shuffled_together() -> None:
    broker = broker_for(PLAN)
    with batcher(broker.sink(), linger=LONG) as one:
        for i in range(100):
            one.add(report(i % 2, group=2, view=i % 2))
    [(_, record)] = records_of(broker, PLAN)
    batch = decode_batch(PLAN, 2, record.key, record.value)
    assert batch.view is not None
    assert batch.view.tolist() == batch.columns["v"].tolist()
    assert batch.view.tolist() != [i % 2 for i in range(100)]


def test_a_position_in_a_batch_is_independent_of_the_order_of_arrival() -> None:
    firsts: Counter[int] = Counter()
    randomness = SeededRandomness(2)
    for _ in range(300):
        sink = ScriptedSink(lambda i: i)
        with batcher(sink, linger=LONG, randomness=randomness) as one:
            for i in range(3):
                one.add(report(i))
        _, key, value = sink.sends[0]
        firsts[int(decode_batch(PLAN, 0, key, value).columns["v"][0])] += 1
    # Chi-square with 2 degrees of freedom, alpha 1e-6.
    assert sum((firsts[i] - 100) ** 2 / 100 for i in range(3)) < 27.7


@pytest.mark.parametrize("fault", [SendFault.FAIL, SendFault.LOSE_ACK, SendFault.DUPLICATE])
def test_many_threads_lose_nothing_under_faults(fault: SendFault) -> None:
    broker = broker_for(PLAN)
    sends = 0

    def hook(*_: object) -> SendFault:
        nonlocal sends
        sends += 1
        return fault if sends % 2 else SendFault.NONE

    broker.faults.on_send = hook
    one = batcher(broker.sink(), size=7, linger=0.01)

    def work(thread: int) -> None:
        for i in range(200):
            one.add(report((thread * 200 + i) % 12, period=i % 3))

    threads = [threading.Thread(target=work, args=(t,)) for t in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    totals = one.close()
    assert (totals.reports_sent, totals.reports_failed) == (800, 0)
    tallies = count(PLAN, records_of(broker, PLAN)).values()
    assert sum(tally.reports for tally in tallies) == 800
    expected = np.bincount(np.arange(800) % 12, minlength=12)
    assert sum(tally.counts[0] for tally in tallies).tolist() == expected.tolist()


def test_what_cannot_be_delivered_is_counted() -> None:
    sink = ScriptedSink(lambda _: RecoverableError("down"))
    one = batcher(sink, linger=0.01, budget=Budget(attempts=2, pause=0.01))
    for _ in range(5):
        one.add(report())
    totals = one.close()
    assert (totals.reports_sent, totals.reports_failed) == (0, 5)


def test_closing_can_be_limited_in_time() -> None:
    sink = ScriptedSink(lambda _: None)
    one = batcher(sink, linger=LONG)
    one.add(report())
    before = time.monotonic()
    totals = one.close(timeout=0.3)
    assert time.monotonic() - before < LONG
    assert totals.reports_failed == 1


def test_adding_blocks_while_nothing_gets_through() -> None:
    sink = ScriptedSink(lambda _: None)
    one = batcher(sink, size=1, budget=Budget(in_flight=2))
    # Two in flight, one that the thread holds, two more that wait: the next finds no room.
    taken = 0

    def full() -> bool:
        nonlocal taken
        try:
            one.add(report(), timeout=0.5)
        except RecoverableError:
            return len(sink.sends) == 2  # before that, the thread may have had no processor
        taken += 1
        assert taken < 10
        return False

    wait_until(full)
    assert taken > 2
    sink._script = lambda i: i
    sink.release()
    one.add(report(), timeout=LONG)
    assert one.close().reports_sent == taken + 1


def test_flush_awaits_delivery() -> None:
    broker = broker_for(PLAN)
    with batcher(broker.sink(), linger=LONG) as one:
        one.flush(LONG)
        for _ in range(3):
            one.add(report())
        one.flush(LONG)
        assert one.totals.reports_sent == 3
        assert sizes(broker) == [3]


def test_flush_gives_up_in_time() -> None:
    sink = ScriptedSink(lambda _: None)
    one = batcher(sink, linger=LONG)
    one.add(report())
    with pytest.raises(RecoverableError, match="not everything"):
        one.flush(0.1)
    sink.release()
    assert one.close().reports_sent == 1


def test_a_refusal_reaches_whoever_adds() -> None:
    one = batcher(InProcessBroker().sink(), size=1)
    one.add(report())

    def refused() -> bool:
        try:
            one.add(report())
        except FatalError as error:
            return "has stopped" in str(error)
        return False

    wait_until(refused)
    totals = one.close()
    assert totals.reports_failed >= 1
    assert totals.reports_sent == 0


def test_closed_is_closed() -> None:
    one = batcher(broker_for(PLAN).sink())
    one.close()
    assert one.close().reports_sent == 0
    with pytest.raises(FatalError, match="is closed"):
        one.add(report())


def test_a_defect_in_the_thread_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading, "excepthook", lambda _: None)
    one = batcher(ScriptedSink(lambda _: 1 // 0), size=1)
    one.add(report())
    with pytest.raises(FatalError, match="has stopped"):
        one.flush(LONG)
    one.close()


def test_a_batch_is_never_larger_than_a_record_may_be() -> None:
    one = batcher(ScriptedSink(lambda i: i), size=10**9)
    assert PLAN.limits is not None
    assert one._sizes[0] == PLAN.limits.batch_reports == 1024
    one.close()


def test_a_restart_sends_the_same_bytes(tmp_path: Path) -> None:
    down = ScriptedSink(lambda _: None)
    first = batcher(down, linger=0, spool=Spool(tmp_path, PLAN))
    first.add(report(7))
    wait_until(lambda: down.sends)
    # The process dies here: nothing was acknowledged.
    first.close(timeout=0)
    up = ScriptedSink(lambda i: i)
    batcher(up, linger=LONG, spool=Spool(tmp_path, PLAN)).close()
    assert up.sends == down.sends[:1]
    assert list(Spool(tmp_path, PLAN).pending()) == []


def test_options_are_checked() -> None:
    for options in ({"size": 0}, {"linger": -1.0}, {"min_batch": 0}):
        with pytest.raises(ValueError, match="at least"):
            batcher(ScriptedSink(lambda i: i), **options)


def test_the_least_is_at_most_half_of_what_a_batch_may_hold() -> None:
    sink = ScriptedSink(lambda i: i)
    with pytest.raises(InvalidInput, match="at most 49, half of the batch size, got 50"):
        batcher(sink, size=99, min_batch=50)
    limited = replace(PLAN, limits=Limits(batch_reports=60, batches=9))
    with pytest.raises(InvalidInput, match=r"at most 30, half of the limits.batch_reports of plan"):
        batcher(sink, limited, min_batch=31)
    batcher(sink, size=100, min_batch=50).close()
    batcher(sink, limited, min_batch=30).close()
    batcher(sink, replace(PLAN, limits=Limits(1, 1)), min_batch=1).close()
    batcher(sink, make_plan(version=1), size=100, min_batch=50).close()


def live(second: float = 5.0) -> FakeClock:
    """Return a clock within the plan's first window of ten seconds; its time does not move."""
    return FakeClock(START + second)


def test_by_default_no_report_leaves_in_a_batch_below_50() -> None:
    broker, clock = broker_for(PLAN), live()
    one = Batcher(PLAN, names_of(PLAN), broker.sink(), linger=0, clock=clock)
    for i in range(99):
        one.add(report(i % 12))
    one.flush(LONG)
    wait_until(lambda: one.totals.reports_sent == 99)
    one.add(report())
    time.sleep(0.1)
    one.flush(LONG)
    assert one.totals.reports_waiting == 1
    for i in range(99):
        one.add(report(i % 12))
    wait_until(lambda: sizes(broker) == [50, 99])
    totals = one.close()
    assert sizes(broker) == [50, 50, 99]
    assert (totals.reports_sent, totals.reports_small) == (199, 0)


@pytest.mark.parametrize("what", ["send", "drop"])
@pytest.mark.parametrize("ending", ["window", "close"])
def test_a_small_company_is_counted_and_sent_or_dropped(what: str, ending: str) -> None:
    broker, clock, events = broker_for(PLAN), live(), Events()
    one = batcher(broker.sink(), linger=0, min_batch=50, small=what, clock=clock, observer=events)
    for i in range(3):
        one.add(report(i))
    time.sleep(0.1)
    assert (sizes(broker), one.totals.reports_waiting) == ([], 3)
    if ending == "window":
        clock.seconds = START + 10 + PLAN.grace / 4
        wait_until(lambda: one.totals.reports_waiting == 0)
    totals = one.close()
    sent = 3 if what == "send" else 0
    assert (totals.reports_sent, totals.reports_small) == (sent, sent)
    assert totals.failures == ({} if sent else {Failure.SMALL: 3})
    assert (events.small_reports, events.dropped) == (sent, 3 - sent)
    assert sizes(broker) == [3] * (what == "send")


def test_no_part_of_a_large_company_is_small() -> None:
    for n in range(50, 260, 7):
        broker = broker_for(PLAN)
        one = batcher(broker.sink(), size=100, min_batch=50, linger=LONG, clock=live())
        for i in range(n):
            one.add(report(i % 12))
        assert one.close().reports_small == 0
        assert min(sizes(broker)) >= 50
        assert max(sizes(broker)) <= 100
        assert sum(sizes(broker)) == n


class Events(Unobserved):
    """Counts small and dropped reports."""

    def __init__(self) -> None:
        self.small_reports = self.dropped = 0

    def small(self, group: int, reports: int) -> None:  # noqa: ARG002
        self.small_reports += reports

    def failed(self, group: int, reports: int, why: Failure) -> None:  # noqa: ARG002
        self.dropped += reports * (why is Failure.SMALL)
