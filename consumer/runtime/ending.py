"""When a plan is over."""

from __future__ import annotations

from calmstream.estimators.plan import Plan

_MARGIN_MS = 60_000
"""For clocks that differ, and for records on their way."""


def all_windows_closed_at(plan: Plan) -> int:
    """Return a time in milliseconds since the epoch at which every window should be closed."""
    return plan.window_end(plan.windows - 1) + plan.grace * 1000 + _MARGIN_MS
