"""No report is lost or sent late, and few are sent in small batches, for any arrivals."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import NamedTuple

from hypothesis import example, given, settings
from hypothesis import strategies as st

from calmstream.estimators.plan import Plan
from calmstream.estimators.randomness import SeededRandomness
from calmstream.producer.gateway.open_batches import (
    Moment,
    OpenBatch,
    OpenBatches,
    waits_until,
)
from tests.support.producer import START, make_plan


class Arrival(NamedTuple):
    """A report that arrives: its time in seconds after the plan's start, its group and window."""

    second: float
    group: int
    period: int


class Left(NamedTuple):
    """A batch that has left: the time in milliseconds, and its reports."""

    wall: int
    leaving: OpenBatch


def at(second: float) -> Moment:
    return Moment(second, round((START + second) * 1000))


def run(plan: Plan, batches: OpenBatches, arrivals: list[Arrival]) -> list[Left]:
    """Add all reports at their times, each its index; take what is due; return all batches."""
    left: list[Left] = []
    now = 0.0

    def until(second: float) -> None:
        nonlocal now
        for _ in range(10_000):
            due = batches.next_due(at(now))
            if due is None or now + due > second:
                break
            now = max(now, now + due)
            taken = batches.take(at(now))
            left.extend(Left(at(now).wall, one) for one in taken)
            if not taken:
                now += 0.001  # a millisecond, the smallest step of the wall clock
        else:
            raise AssertionError("something is due for ever")
        now = second

    for i, (second, group, period) in enumerate(arrivals):
        until(second)
        full = batches.add(group, period, (0, (i,)), at(now))
        left.extend([Left(at(now).wall, full)] if full is not None else [])
    until(10_000.0)
    return left


class Coming(NamedTuple):
    """A report before the plan is drawn: it arrives after ``part`` of its window's open time."""

    part: float
    group: int
    period: int


coming = st.builds(Coming, st.floats(0, 0.999), st.integers(0, 1), st.integers(0, 1))
stray = st.builds(Coming, st.floats(-3, 3), st.integers(0, 1), st.integers(0, 3))


def arrives(plan: Plan, one: Coming) -> Arrival:
    opens, ends = plan.window_start(one.period), waits_until(plan, one.period)
    second = (opens + one.part * (ends - opens)) / 1000 - START
    return Arrival(max(second, 0.0), one.group, one.period)


@given(
    expected=st.integers(0, 60).flatmap(lambda n: st.lists(coming, min_size=n, max_size=n)),
    strays=st.lists(stray, max_size=3),
    window=st.sampled_from([1, 10, 100]),
    grace=st.sampled_from([0, 1, 19, 20, 100]),
    most=st.integers(1, 12),
    least=st.integers(1, 5),
    linger=st.sampled_from([0.0, 0.5, 30.0]),
)
@example(  # The sixth report fills the batch in the millisecond in which its window stops waiting.
    expected=[Coming(0.0, 0, 0)] * 5,
    strays=[Coming(0.9996, 0, 0)],
    window=1,
    grace=0,
    most=4,
    least=2,
    linger=30.0,
)
@settings(max_examples=300, deadline=None)
def test_everybody_leaves_once_and_in_time(
    expected: list[Coming],
    strays: list[Coming],
    window: int,
    grace: int,
    most: int,
    least: int,
    linger: float,
) -> None:
    plan = make_plan(window=window, grace=grace, skew=0)
    arrivals = sorted(arrives(plan, one) for one in expected + strays)
    least = min(least, max(1, most // 2))
    sizes = [most] * len(plan.groups)
    batches = OpenBatches(
        plan, sizes, min_batch=least, linger=linger, randomness=SeededRandomness(5)
    )
    left = run(plan, batches, arrivals)
    who = Counter(i for one in left for _, (i,) in one.leaving.rows)
    assert who == Counter(range(len(arrivals)))

    by_batch: dict[tuple[int, int], list[Left]] = defaultdict(list)
    for one in left:
        by_batch[one.leaving.group, one.leaving.period].append(one)
        reports = len(one.leaving.rows)
        assert one.leaving.small == (reports < least)
        assert reports <= most + least
        for _, (i,) in one.leaving.rows:
            came = arrivals[int(i)]
            assert (came.group, came.period) == (one.leaving.group, one.leaving.period)
            # Nobody waits beyond the end of the window's time, or linger after that.
            latest = max(waits_until(plan, came.period), at(came.second).wall + 1000 * linger)
            assert one.wall <= latest + 2
    for (group, period), these in by_batch.items():
        opens, ends = plan.window_start(period), waits_until(plan, period)
        own = [a for a in arrivals if (a.group, a.period) == (group, period)]
        if all(opens <= at(a.second).wall < ends for a in own):
            small = sum(one.leaving.small for one in these)
            # Only a group that is small as a whole leaves small.
            assert small == (len(own) < least)
