"""The maximum privacy loss of one device under a plan, in exact decimals.

It is the sum of the epsilons of its reports under this plan; devices keep account of others.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from calmstream.estimators.plan.group import Guarantee
from calmstream.estimators.plan.plan import Plan
from calmstream.estimators.randomness import parse_epsilon

YEAR = 365 * 86_400  # seconds over which losses are added up, from any start


@dataclass(frozen=True, slots=True)
class Loss:
    """Maximum loss of one device; ``year``: in any 365 days, by the ends of reports' windows."""

    report: Decimal
    year: Decimal
    plan: Decimal

    @classmethod
    def of(cls, plan: Plan) -> Loss:
        return loss(plan.epsilon, plan.guarantee, plan.window, plan.windows)

    def to_json(self) -> dict[str, str]:
        return {"report": f"{self.report:f}", "year": f"{self.year:f}", "plan": f"{self.plan:f}"}


def loss(epsilon: str, guarantee: Guarantee, window: int, windows: int) -> Loss:
    """Return the loss under a plan with these terms; ``window`` is in seconds.

    Reports of a device are at least p = w · window seconds apart, so a time of T seconds contains
    at most ceil(T / p) of them.
    """
    per_report = parse_epsilon(epsilon)
    if guarantee.kind == "once":
        return Loss(per_report, per_report, per_report)
    reports = -(-windows // guarantee.windows)
    yearly = min(reports, -(-YEAR // (guarantee.windows * window)))
    return Loss(per_report, per_report * yearly, per_report * reports)


def loss_plan(plan: Plan) -> str:
    """Return the maximum loss of one device over the whole plan, as a decimal string."""
    return plan.epsilon if plan.guarantee.kind == "once" else f"{Loss.of(plan).plan:f}"
