"""Decides whether a device accepts a plan: the checks of ``docs/signed-plans.md``, in order."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

from calmstream.producer.device.policy import Policy
from calmstream.producer.signed.refusal import PlanRefused, Refusal

if TYPE_CHECKING:
    from calmstream.estimators.plan import Plan
    from calmstream.producer.signed.certificate import Statement


@dataclass(frozen=True, slots=True, eq=False)
class AcceptedPlan:
    """A plan and, if it is signed, the verified statement about its signer, else None."""

    plan: Plan
    statement: Statement | None

    @property
    def root(self) -> str:
        """The root key of the certificate; empty for an unsigned plan."""
        return "" if self.statement is None else self.statement.root

    @property
    def owner(self) -> str:
        return self.plan.owner if self.statement is None else self.statement.owner


def standing(accepted: AcceptedPlan, policy: Policy, present: int) -> PlanRefused | None:
    """Return why the device does not accept a plan at ``present``, in seconds since the epoch."""
    plan, statement = accepted.plan, accepted.statement
    if statement is not None:
        if statement.root not in policy.roots:
            return PlanRefused(Refusal.UNKNOWN_ROOT, "the policy does not name the plan's root")
        if not statement.valid_at(plan.start) or not statement.valid_at(present):
            return PlanRefused(
                Refusal.EXPIRED_CERTIFICATE,
                f"the certificate is valid from {statement.not_before} to {statement.not_after}; "
                f"the plan starts at {plan.start}, now is {present}",
            )
    if policy.purposes is not None and plan.purpose not in policy.purposes:
        return PlanRefused(Refusal.PURPOSE, "the policy does not list the plan's purpose")
    if Decimal(plan.epsilon) > Decimal(policy.report_epsilon):
        return PlanRefused(
            Refusal.REPORT_EPSILON,
            f"a report costs epsilon {plan.epsilon}; the policy allows {policy.report_epsilon}",
        )
    return None
