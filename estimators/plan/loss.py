"""The maximum privacy loss of one device under a plan, in exact decimals.

The loss of a device is the sum of the epsilons of its reports. With the guarantee ``once`` a device
makes one report, with ``w-event`` at most one in every w windows. Reports under other plans are not
included; devices keep account of them (docs/concepts.md, lineage).
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from calmstream.estimators.plan.group import Guarantee
from calmstream.estimators.plan.plan import Plan
from calmstream.estimators.randomness import parse_epsilon

YEAR = 365 * 86_400
"""Length in seconds of the time over which losses are added up, from any start."""


@dataclass(frozen=True, slots=True)
class Loss:
    """The maximum loss of one device, as sums of epsilons.

    Attributes:
        year: loss in any 365 days; a report counts at the end of its window.
    """

    report: Decimal
    year: Decimal
    plan: Decimal

    @classmethod
    def of(cls, plan: Plan) -> Loss:
        return loss(plan.epsilon, plan.guarantee, plan.window, plan.windows)

    def to_json(self) -> dict[str, str]:
        return {"report": f"{self.report:f}", "year": f"{self.year:f}", "plan": f"{self.plan:f}"}


def loss(epsilon: str, guarantee: Guarantee, window: int, windows: int) -> Loss:
    """Return the loss under a plan with these terms.

    Reports of a device are at least p = w · window seconds apart, so a time of T seconds contains
    at most ceil(T / p) of them.

    Args:
        window: length of a window in seconds.
    """
    per_report = parse_epsilon(epsilon)
    if guarantee.kind == "once":
        return Loss(per_report, per_report, per_report)
    reports = -(-windows // guarantee.windows)
    yearly = min(reports, -(-YEAR // (guarantee.windows * window)))
    return Loss(per_report, per_report * yearly, per_report * reports)


def loss_window(plan: Plan) -> str:
    """Return the maximum loss of one device in one window, which is that of one report."""
    return plan.epsilon


def loss_plan(plan: Plan) -> str:
    """Return the maximum loss of one device over the whole plan, as a decimal string.

    With ``once`` it is epsilon in the spelling of the plan. With ``w-event`` it is epsilon for
    every w windows, and for the rest if the number of windows is not a multiple of w.
    """
    return plan.epsilon if plan.guarantee.kind == "once" else f"{Loss.of(plan).plan:f}"
