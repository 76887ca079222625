from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calmstream import MemoryStore
from calmstream.estimators.plan import Guarantee, Plan
from calmstream.estimators.plan.loss import YEAR, Loss, loss
from calmstream.producer.device.assignment import place
from calmstream.producer.device.ledger import DeviceState
from tests.support.producer import make_plan, unsigned_reporter

DAY = 86_400


def w_event(w: int) -> Guarantee:
    return Guarantee("w-event", w)


@pytest.mark.parametrize(
    ("epsilon", "guarantee", "window", "windows", "expected"),
    [
        ("0.5", Guarantee(), DAY, 1000, ("0.5", "0.5", "0.5")),
        ("1", w_event(24), 3600, 24 * 30, ("1", "30", "30")),
        ("1", w_event(24), 3600, 24 * 3650, ("1", "365", "3650")),
        ("2", w_event(20), 60, 43_200, ("2", "4320", "4320")),
        ("0.25", w_event(2), 183 * DAY, 10, ("0.25", "0.25", "1.25")),
        ("0.25", w_event(2), 182 * DAY, 10, ("0.25", "0.50", "1.25")),
        ("0.1", w_event(3), DAY, 7, ("0.1", "0.3", "0.3")),
        ("1", w_event(365), DAY, 366, ("1", "1", "2")),
        ("1", w_event(364), DAY, 366, ("1", "2", "2")),
    ],
)
def test_losses_by_hand(
    epsilon: str, guarantee: Guarantee, window: int, windows: int, expected: tuple[str, str, str]
) -> None:
    result = loss(epsilon, guarantee, window, windows)
    assert result == Loss(*map(Decimal, expected))
    assert result.to_json() == dict(zip(("report", "year", "plan"), expected, strict=True))


def reported(plan: Plan, secret: bytes, windows: Iterable[int]) -> list[int]:
    """Return the ends of those of the windows in which a device reports."""
    store, ends = MemoryStore(DeviceState(secret)), []
    for window in windows:
        now = plan.window_start(window)
        if unsigned_reporter(plan, store, clock=lambda now=now: now).report({}) is not None:
            ends.append(plan.window_end(window) // 1000)
    return ends


@pytest.mark.slow
@given(
    w=st.integers(2, 5),
    days=st.sampled_from([20, 73, 90, 121, 122, 182, 183, 365, 400]),
    windows=st.integers(1, 40),
    secret=st.binary(min_size=16, max_size=16),
    skipped=st.sets(st.integers(0, 40)),
)
@settings(max_examples=200, deadline=None)
def test_no_device_loses_more_in_any_year(
    w: int, days: int, windows: int, secret: bytes, skipped: set[int]
) -> None:
    plan = make_plan(guarantee=w_event(w), window=days * DAY, windows=windows)
    ends = reported(plan, secret, set(range(windows)) - skipped)
    stated = Loss.of(plan)
    for last in ends:
        assert sum(last - YEAR < end <= last for end in ends) * stated.report <= stated.year
    assert len(ends) * stated.report <= stated.plan


def test_the_bound_of_a_year_is_met() -> None:
    """Where the windows of one slot are a divisor of the year apart, and one more."""
    for days, w, expected in ((73, 5, 1), (36, 2, 6), (20, 2, 10)):
        plan = make_plan(guarantee=w_event(w), window=days * DAY, windows=60)
        windows = range(place(plan, bytes(16)).slot, 60, w)
        ends = reported(plan, bytes(16), windows)
        assert len(ends) == len(windows)
        most = max(sum(last - YEAR < end <= last for end in ends) for last in ends)
        assert most == expected == Loss.of(plan).year
