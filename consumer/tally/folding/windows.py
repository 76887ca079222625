"""Windows as the log sees them: pure functions of the plan and a partition's clock.

The clock of a partition is the running maximum of the broker's append times, in milliseconds since
the epoch, 0 before the first record. Nothing here knows any other time.
"""

from __future__ import annotations

from estimators.errors import Reason, Rejection
from estimators.plan import Plan

NEVER = 1 << 62
"""Later than any append time."""


def closes_after(plan: Plan, window: int) -> int:
    """The window closes at the first record with a clock above this; NEVER past the last window."""
    if window >= plan.windows:
        return NEVER
    return plan.window_end(window) + plan.grace * 1000


def closed_through(plan: Plan, clock: int) -> int:
    """Last window that a log with this clock has closed; -1 for none. O(1)."""
    length = plan.window * 1000
    past = clock - (plan.start + plan.grace) * 1000
    return max(-1, min(-(-past // length) - 2, plan.windows - 1))


def window_of_clock(plan: Plan, clock: int, closed: int) -> int | None:
    """The open window that a reject at this clock is booked to.

    It is the window that contains the clock, clipped into the windows still open, ``closed + 1`` to
    the last; None once the last window has closed.
    """
    last = plan.windows - 1
    if closed >= last:
        return None
    return min(max(plan.window_at(clock), closed + 1), last)


def check_period(plan: Plan, period: int, clock: int, closed: int) -> None:
    """Whether a batch of window ``period`` may still, or already, be counted at this clock.

    Raises:
        Rejection: after_end, late or early, in this order.
    """
    if period >= plan.windows:
        raise Rejection(Reason.AFTER_END, f"the plan's last window is {plan.windows - 1}")
    if period <= closed or period < 0:
        raise Rejection(Reason.LATE, f"the log has closed the windows through {closed}")
    if plan.window_start(period) > clock + plan.skew * 1000:
        raise Rejection(Reason.EARLY, "the window begins later than the log's clock plus skew")
