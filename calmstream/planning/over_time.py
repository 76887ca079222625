"""What a plan means over time: who reports in later windows, and when devices must stop."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

from calmstream.estimators.plan import Plan
from calmstream.estimators.plan.loss import YEAR, Loss
from calmstream.planning.allowed_loss import MAX_REPORT, MAX_YEAR

_ONCE = (
    "once, over several windows: every device reports in the first window that it sees, so later "
    "windows are about new devices only. For a value over time: --guarantee w-event:{w}"
)


def period(epsilon: Decimal, window: int) -> int:
    """Return the smallest W with which devices keep to the default policy for ever."""
    reports = int(MAX_YEAR // epsilon)
    return max(1, -(-YEAR // (window * reports)))


def warnings(plan: Plan) -> list[str]:
    """Return what the author should know about later windows, one line each."""
    if plan.windows == 1:
        return []
    loss = Loss.of(plan)
    if plan.guarantee.kind == "once":
        w = period(loss.report, plan.window) if loss.report <= MAX_YEAR else plan.windows
        return [_ONCE.format(w=w)]
    if loss.report > MAX_REPORT:
        return [f"Devices with the default policy (at most {MAX_REPORT} with one report) refuse it"]
    if loss.year <= MAX_YEAR:
        return []
    reports = int(MAX_YEAR // loss.report)
    seconds = plan.start + reports * plan.guarantee.windows * plan.window
    day = datetime.fromtimestamp(seconds, UTC)
    return [
        (
            f"Devices with the default policy ({MAX_YEAR} in any 365 days) stop after {reports} "
            f"reports, from about {day:%Y-%m-%d} on, until a year has passed; w-event:"
            f"{period(loss.report, plan.window)} lets them go on for ever"
        )
    ]
