"""Windows by the log's clock: pure functions of the plan and a partition's clock.

The clock of a partition is the running maximum of the broker's append times, in milliseconds since
the epoch, and 0 before the first record. No other time is used here.

A window stays open for a grace period after its end, which Kafka users know as allowed lateness.
"""

from __future__ import annotations

from estimators.errors import Reason, Rejection
from estimators.plan import Plan

NEVER = 1 << 62
"""Later than any append time."""


def closes_after(plan: Plan, window: int) -> int:
    """Return the clock above which a window closes; NEVER after the last window."""
    if window >= plan.windows:
        return NEVER
    return plan.window_end(window) + plan.grace * 1000


def closed_through(plan: Plan, clock: int) -> int:
    """Return the last window that a log with this clock has closed; -1 for none. O(1)."""
    length = plan.window * 1000
    past = clock - (plan.start + plan.grace) * 1000
    return max(-1, min(-(-past // length) - 2, plan.windows - 1))


def window_of_clock(plan: Plan, clock: int, closed: int) -> int | None:
    """Return the open window to which a reject at this clock is attributed.

    It is the window that contains the clock, or the nearest one still open: ``closed + 1`` to the
    last. None once the last window has closed.
    """
    last = plan.windows - 1
    if closed >= last:
        return None
    return min(max(plan.window_at(clock), closed + 1), last)


def check_period(plan: Plan, period: int, clock: int, closed: int) -> None:
    """Check that a batch of window ``period`` can be counted at this clock.

    Raises:
        Rejection: after_end, late or early, checked in this order.
    """
    if period >= plan.windows:
        raise Rejection(Reason.AFTER_END, f"the plan's last window is {plan.windows - 1}")
    if period <= closed or period < 0:
        raise Rejection(Reason.LATE, f"the log has closed the windows through {closed}")
    if plan.window_start(period) > clock + plan.skew * 1000:
        raise Rejection(Reason.EARLY, "the window begins later than the log's clock plus skew")
