"""Warnings of ``plan`` about later windows."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest

from calmstream.estimators.plan import Guarantee, Plan
from calmstream.estimators.plan.loss import Loss
from calmstream.planning.over_time import period, warnings
from tests.support.publisher import published_plan

DAY = 86_400


def plan(guarantee: Guarantee, windows: int = 800) -> Plan:
    base = published_plan(windows=1, guarantee=guarantee)
    return replace(base, window=DAY, expires=base.start + windows * DAY)


def test_once_over_several_windows_is_pointed_out() -> None:
    assert warnings(plan(Guarantee(), windows=1)) == []
    (found,) = warnings(plan(Guarantee()))
    assert "later windows are about new devices only" in found
    assert "--guarantee w-event:46" in found


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


@pytest.mark.parametrize("epsilon", ["4.001", "8.5"])
def test_a_report_that_costs_more_than_the_default_policy_allows(epsilon: str) -> None:
    loud = replace(plan(Guarantee("w-event", 10)), epsilon=epsilon, lineage_epsilon="128")
    assert warnings(loud) == [
        "Devices with the default policy (at most 4 with one report) refuse it"
    ]
