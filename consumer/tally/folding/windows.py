"""Computes which windows are open, closed or too early, from the plan and a log's clock.

The clock of a log is the largest of the broker's append times so far, in milliseconds since the
epoch; it is 0 before the first record. This module uses no other time.

A window stays open for the plan's *grace* after its end; stream processors call it allowed
lateness. A batch may be ahead of the log's clock by at most the plan's *skew*.
"""

from __future__ import annotations

from calmstream.common.errors import Reason, Rejection
from calmstream.estimators.plan import Plan

NEVER = 1 << 62
"""A time in milliseconds that is later than any append time."""


def closes_after(plan: Plan, window: int) -> int:
    """Return the clock above which a window closes, in milliseconds; NEVER after the last one."""
    if window >= plan.windows:
        return NEVER
    return plan.window_end(window) + plan.grace * 1000


def closed_through(plan: Plan, clock: int) -> int:
    """Return the number of the last window that is closed at this clock; -1 for none. O(1)."""
    length = plan.window * 1000
    past = clock - (plan.start + plan.grace) * 1000
    return max(-1, min(-(-past // length) - 2, plan.windows - 1))


def window_of_clock(plan: Plan, clock: int, closed: int) -> int | None:
    """Return the number of the window in which a rejected record is counted.

    It is the window that contains the clock or, if that is not open, the nearest open one. None
    after the last window has closed.
    """
    last = plan.windows - 1
    if closed >= last:
        return None
    return min(max(plan.window_at(clock), closed + 1), last)


def check_period(plan: Plan, period: int, clock: int, closed: int) -> None:
    """Check that a batch of a window can be counted at this clock."""
    if period >= plan.windows:
        raise Rejection(Reason.AFTER_END, f"the plan's last window is {plan.windows - 1}")
    if period <= closed or period < 0:
        raise Rejection(Reason.LATE, f"the log has closed the windows through {closed}")
    if plan.window_start(period) > clock + plan.skew * 1000:
        raise Rejection(Reason.EARLY, "the window begins later than the log's clock plus skew")
