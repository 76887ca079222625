from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from functools import reduce

import numpy as np
import pytest

from calmstream import MemoryStore
from calmstream.estimators import methods
from calmstream.estimators.domain import Domain
from calmstream.estimators.marginal import Z95
from calmstream.estimators.plan import Guarantee, Plan
from calmstream.estimators.plan.loss import Loss
from calmstream.estimators.recorded import Recorded
from calmstream.estimators.tracking.tracker import Tracker
from calmstream.evaluation.precision import Precision
from calmstream.evaluation.promises import promises
from calmstream.planning.over_time import DRIFT, MONTH, in_spans, period, warnings
from calmstream.producer.device.assignment import place
from tests.support.producer import unsigned_reporter
from tests.support.publisher import published_plan
from tests.unit.estimators.test_tracking import histograms, perturbed, plan_of

DAY = 86_400


def plan(guarantee: Guarantee, windows: int = 800) -> Plan:
    return published_plan(window=DAY, windows=windows, guarantee=guarantee)


def test_once_over_several_windows_is_pointed_out() -> None:
    assert warnings(plan(Guarantee(), windows=1)) == []
    (found,) = warnings(plan(Guarantee()))
    assert "later windows are about new devices only" in found
    assert "--guarantee w-event:46" in found


def test_a_plan_that_asks_before_anything_is_counted_is_pointed_out() -> None:
    base = plan(Guarantee(), windows=1)
    first, *others = base.domain.attributes
    counting = replace(first, recorded=Recorded("open", "any", 7))
    (found,) = warnings(replace(base, domain=Domain((counting, *others))))
    assert "before it has counted a complete day" in found


def test_a_plan_that_ends_before_every_slot_is_pointed_out() -> None:
    (found,) = warnings(plan(Guarantee("w-event", 46), windows=30))
    assert found.startswith("35% of the devices never report: 46 slots, and 30 windows")
    base = plan(Guarantee("w-event", 46), windows=30)
    silent = [place(base, i.to_bytes(16, "big")).slot >= 30 for i in range(2_000)]
    assert abs(sum(silent) / len(silent) - 16 / 46) < 0.06  # five standard errors


@pytest.mark.parametrize("epsilon", ["0.5", "1", "3", "4", "8"])
def test_the_period_is_the_smallest_that_the_default_policy_allows(epsilon: str) -> None:
    w = period(Decimal(epsilon), DAY)
    losses = [
        Loss.of(replace(plan(Guarantee("w-event", n)), epsilon=epsilon, lineage_epsilon=epsilon))
        for n in (w, w - 1)
    ]
    assert losses[0].year <= 8 < losses[1].year


def test_the_day_on_which_devices_stop() -> None:
    assert warnings(plan(Guarantee("w-event", 46))) == []
    (found,) = warnings(plan(Guarantee("w-event", 10)))
    # Eight reports, one in each ten days from 2023-11-14 on.
    assert "stop after 8 reports, from about 2024-02-02 on" in found
    assert "w-event:46" in found


@pytest.mark.parametrize(("w", "stops"), [(46, None), (10, 80)])
def test_devices_stop_when_the_plan_says_so(w: int, stops: int | None) -> None:
    """A device with the default policy is asked on every day of two years."""
    base, days = plan(Guarantee("w-event", w)), list[int]()
    now = base.start
    reporter = unsigned_reporter(base, MemoryStore(), clock=lambda: now * 1000, policy=None)
    record = {attribute.name: attribute.labels[0] for attribute in base.domain.attributes}
    for day in range(730):
        now = base.start + day * DAY + DAY // 2
        if reporter.report(record) is not None:
            days.append(day)
    gaps = np.diff(days)
    if stops is None:
        assert set(gaps) == {w}
        assert len(days) >= 730 // w
    else:
        assert len([day for day in days if day < 365]) == 8
        assert stops - w <= days[7] < stops
        assert days[8] >= 365


@pytest.mark.parametrize("epsilon", ["4.001", "8.5"])
def test_a_report_that_costs_more_than_the_default_policy_allows(epsilon: str) -> None:
    loud = replace(plan(Guarantee("w-event", 10)), epsilon=epsilon, lineage_epsilon="128")
    assert warnings(loud) == [
        "Devices with the default policy (at most 4 with one report) refuse it"
    ]


def test_a_day_and_a_week_are_several_windows_of_the_plan() -> None:
    base = plan(Guarantee())
    for window, windows, expected in (
        (DAY, 800, {"a week": 7}),
        (DAY, 6, {}),
        (3600, 800, {"a day": 24, "a week": 168}),
        (7 * DAY, 90, {}),
    ):
        assert (
            in_spans(replace(base, window=window, expires=base.start + windows * window))
            == expected
        )


@pytest.mark.parametrize("users", [5_000, 200_000])
def test_current_sets_know_about_as_much_as_is_promised(users: int) -> None:
    """Every share of one attribute drifts as the promise assumes."""
    windows = 100
    of_stream = replace(plan_of(users), expires=windows * DAY)
    generator, tracker = np.random.default_rng(1), Tracker(of_stream)
    domain, step = of_stream.domain, DRIFT * np.sqrt(DAY / MONTH)
    shares, errors = [np.full(c, 1 / c) for c in domain.cardinalities], []
    for t in range(windows):
        for i, share in enumerate(shares):
            moves = generator.normal(size=len(share))
            moves *= step / np.sqrt(1 - 1 / len(share))
            shares[i] = share + moves - moves.mean()
        records = reduce(np.multiply.outer, shares).ravel()
        devices = histograms(of_stream, records, generator)
        tracker.add(t, perturbed(of_stream, devices, generator))
        if t >= 40 and t % 6 == 0:
            model = methods.get("calm").fit(of_stream, tracker.current().tallies)
            for i, share in enumerate(shares):
                errors += np.square(model.marginal((i,)).table - share).tolist()
    promised = promises(Precision(of_stream), [])[0]["points_over_time"]["now"] / 100
    assert 0.6 < Z95 * np.sqrt(np.mean(errors)) / promised < 1.2
