"""What a plan means over time: what is known of a day, a week and now, and when devices stop."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from math import sqrt

from calmstream.estimators.plan import Plan
from calmstream.estimators.plan.loss import YEAR, Loss
from calmstream.planning.allowed_loss import MAX_REPORT, MAX_YEAR

_ONCE = (
    "once, over several windows: every device reports in the first window that it sees, so later "
    "windows are about new devices only. For a value over time: --guarantee w-event:{w}"
)
_UNCOUNTED = (
    "once, with counted events: a device reports when it first sees the plan, before it has "
    "counted a complete day, and never again. --guarantee w-event:{w} asks again"
)
_NO_TURN = (
    "{silent:.0%} of the devices never report: {w} slots, and {windows} windows. A longer "
    "--lifetime gives every device a turn"
)

DRIFT, MONTH = 0.01, 30 * 86_400  # deviation of a share's change in a month, for ``now``

_LEARNT = 1.7
"""Largest ratio, in simulations, of the variance to that of the best filter, which knows how fast a
cell moves: a learnt discount follows a whole view (tests/unit/calmstream/planning)."""

_SPANS = {"a day": 86_400, "a week": 7 * 86_400}


def in_spans(plan: Plan) -> dict[str, int]:
    """Return the windows in a day and in a week, where those are several and the plan has them."""
    found = {name: seconds // plan.window for name, seconds in _SPANS.items()}
    return {name: count for name, count in found.items() if 1 < count <= plan.windows}


def worth_now(plan: Plan, spread: float) -> float:
    """Return the reports that a current set is worth; ``spread``: variance of a share by one.

    This is the steady state of the filter (docs/continuous.md): 1/P = 1/(P + step) + 1/noise.
    """
    step, noise = DRIFT**2 * plan.window / MONTH, spread / plan.users
    variance = _LEARNT * (sqrt(step * (step + 4 * noise)) - step) / 2
    return spread / min(max(variance, noise / plan.windows), noise)


def line(plan: Plan) -> str | None:
    if plan.windows == 1:
        return None
    return f"now: a current set, if shares drift by {100 * DRIFT:g} point a month; others are means"


def period(epsilon: Decimal, window: int) -> int:
    """Return the smallest W with which devices keep to the default policy for ever."""
    reports = int(MAX_YEAR // epsilon)
    return max(1, -(-YEAR // (window * reports)))


def warnings(plan: Plan) -> list[str]:
    loss = Loss.of(plan)
    if plan.guarantee.kind == "once":
        w = period(loss.report, plan.window) if loss.report <= MAX_YEAR else plan.windows
        counted = any(each.recorded and each.recorded.take for each in plan.domain.attributes)
        lines = [_ONCE] * (plan.windows > 1) + [_UNCOUNTED] * counted
        return [each.format(w=w) for each in lines]
    w, windows = plan.guarantee.windows, plan.windows
    turns = [_NO_TURN.format(silent=1 - windows / w, w=w, windows=windows)] * (windows < w)
    return turns + _stops(plan, loss)


def _stops(plan: Plan, loss: Loss) -> list[str]:
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
