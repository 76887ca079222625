"""Check when reports leave: by the size of a batch, by its age, or at the end of the window."""

from __future__ import annotations

from collections import Counter

import pytest

from calmstream.estimators.plan import Plan
from calmstream.estimators.randomness import SeededRandomness
from calmstream.producer.gateway.encoding import Row
from calmstream.producer.gateway.open_batches import (
    Moment,
    OpenBatch,
    OpenBatches,
    waits_until,
)
from tests.support.producer import START, make_plan

PLAN = make_plan(window=100, windows=4, grace=40, skew=10)
END = (START + 100) * 1000 + 10_000  # all reports of window 0 leave: a quarter of the grace later


def at(second: float) -> Moment:
    return Moment(1000 + second, round((START + second) * 1000))


def row(i: int) -> Row:
    return 0, (i,)


def batches(
    max_rows: int = 100, min_batch: int = 5, linger: float = 1.0, plan: Plan = PLAN
) -> OpenBatches:
    sizes = [max_rows] * len(plan.groups)
    randomness = SeededRandomness(1)
    return OpenBatches(plan, sizes, min_batch=min_batch, linger=linger, randomness=randomness)


def fill(made: OpenBatches, reports: int, second: float, period: int = 0) -> list[OpenBatch]:
    batches = [made.add(0, period, row(i), at(second)) for i in range(reports)]
    return [leaving for leaving in batches if leaving is not None]


def sizes(leaving: list[OpenBatch]) -> list[tuple[int, bool]]:
    return [(len(one.rows), one.small) for one in leaving]


@pytest.mark.parametrize(
    ("window", "grace", "seconds"),
    [
        (3600, 360, 3600 + 90),
        (100, 20, 100 + 5),
        (100, 19, 100 + 17),
        (100, 2, 100),
        (100, 0, 98),
        (8, 0, 6),
        (4, 0, 3),
        (1, 1, 1.5),
        (1, 0, 0.75),
    ],
)
def test_when_a_window_is_out_of_time(window: int, grace: int, seconds: float) -> None:
    plan = make_plan(window=window, grace=grace, skew=0)
    assert waits_until(plan, 0) == START * 1000 + round(seconds * 1000)
    assert waits_until(plan, 2) == waits_until(plan, 0) + 2000 * window
    assert waits_until(plan, 0) < plan.window_end(0) + 1000 * plan.grace


def test_the_reports_that_stay_are_drawn_uniformly() -> None:
    """Which of two batches a report is in does not depend on the time of its arrival."""
    stayed: Counter[object] = Counter()
    made = batches(max_rows=4, min_batch=2)
    for _ in range(600):
        fill(made, 6, 0)
        (rest,) = made.take(at(500))
        stayed.update(value for _, (value,) in rest.rows)
    assert stayed.total() == 1200
    # Chi-square with 5 degrees of freedom, alpha 1e-6.
    assert sum((stayed[i] - 200) ** 2 / 200 for i in range(6)) < 36.5


def test_a_clock_that_goes_back_keeps_a_batch_waiting() -> None:
    made = batches()
    made.add(0, 0, row(0), Moment(0.0, END - 1))
    assert made.take(Moment(1.0, END - 60_000)) == []
    assert sizes(made.take(Moment(2.0, END))) == [(1, True)]
