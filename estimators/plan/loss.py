"""How much privacy one device can lose under a plan, in exact decimals.

What a device loses is the sum of the epsilons of its reports. Under ``once`` it makes one report;
under ``w-event`` at most one in every w windows begun. Reports under other plans are not counted
here: a device's ledger and its lineage hold those.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

from estimators.randomness import parse_epsilon

if TYPE_CHECKING:
    from estimators.plan.group import Guarantee
    from estimators.plan.plan import Plan

YEAR = 365 * 86_400
"""Seconds of the span over which a device's losses are summed, wherever it begins."""


@dataclass(frozen=True, slots=True)
class Loss:
    """Most that one device can lose.

    Attributes:
        report: to one report.
        year: in any 365 days, a report counted at the end of its window.
        plan: over the whole plan.
    """

    report: Decimal
    year: Decimal
    plan: Decimal

    @classmethod
    def of(cls, plan: Plan) -> Loss:
        """Return the loss under a plan."""
        return loss(plan.epsilon, plan.guarantee, plan.window, plan.windows)

    def to_json(self) -> dict[str, str]:
        """Return the JSON object; values are decimal strings."""
        return {"report": f"{self.report:f}", "year": f"{self.year:f}", "plan": f"{self.plan:f}"}


def loss(epsilon: str, guarantee: Guarantee, window: int, windows: int) -> Loss:
    """Of a plan that is still to be made.

    A span of T seconds, one end of it included, holds at most ceil(T / p) of moments that are p or
    more apart.

    Args:
        epsilon: of one report, decimal string.
        guarantee: of the plan.
        window: its length, seconds.
        windows: of the plan.

    Raises:
        PlanError: epsilon is no number of a plan.
    """
    one = parse_epsilon(epsilon)
    if guarantee.kind == "once":
        return Loss(one, one, one)
    reports = -(-windows // guarantee.windows)
    yearly = min(reports, -(-YEAR // (guarantee.windows * window)))
    return Loss(one, one * yearly, one * reports)


def loss_window(plan: Plan) -> str:
    """Return the most that one device can spend in one window: one report."""
    return plan.epsilon


def loss_plan(plan: Plan) -> str:
    """Return the most that one device can spend over the whole plan, as a decimal string.

    ``once``: epsilon as the plan spells it. ``w-event``: epsilon for every w windows begun, the
    last ones included.
    """
    return plan.epsilon if plan.guarantee.kind == "once" else f"{Loss.of(plan).plan:f}"
