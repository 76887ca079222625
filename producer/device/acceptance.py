"""Which plans a device accepts: those of trusted roots, within the policy's limits for one report.

The checks and their order stand in ``docs/signed-plans.md``. Nothing here depends on a record, and
nothing is written.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from dataclasses import dataclass
from decimal import Decimal

from estimators.errors import PlanError
from estimators.plan import Plan
from producer.device.policy import Policy
from producer.device.read_plan import read_device_plan
from producer.signed.certificate import Statement
from producer.signed.envelope import read_envelope
from producer.signed.lineage import signed_lineage
from producer.signed.refusal import PlanRefused, Refusal
from producer.signed.verify import verify


@dataclass(frozen=True, slots=True, eq=False)
class AcceptedPlan:
    """A plan with what is known of its origin.

    Attributes:
        plan: what it says.
        statement: of the certificate; None for an unsigned plan.
    """

    plan: Plan
    statement: Statement | None

    @property
    def root(self) -> str:
        """Root key of the certificate; empty for an unsigned one."""
        return "" if self.statement is None else self.statement.root

    @property
    def owner(self) -> str:
        """Who answers for the plan."""
        return self.plan.owner if self.statement is None else self.statement.owner


def read_signed_plan(raw: bytes, roots: Collection[str] | None) -> AcceptedPlan:
    """Verify an envelope and read its plan, at a bounded cost whatever the bytes.

    Neither dates nor a policy's other limits are looked at: :func:`standing`.

    Args:
        raw: the envelope.
        roots: keys that are trusted; None takes any root that the envelope itself names.

    Raises:
        PlanRefused: ``MALFORMED``, ``UNSIGNED`` where the bytes are a plan without envelope, or a
            reason about certificate, signatures, plan or lineage.
        FatalError: the library for signatures is not installed.
    """
    raw = bytes(raw)
    try:
        envelope = read_envelope(raw)
    except ValueError as error:
        raise _no_envelope(raw, error) from None
    verified = verify(envelope, roots)
    plan = _signed_plan(verified.plan)
    if plan.lineage != signed_lineage(verified.statement.root, plan.lineage_name):
        raise PlanRefused(
            Refusal.WRONG_LINEAGE, "lineage does not follow from the root and lineage_name"
        )
    return AcceptedPlan(plan, verified.statement)


def read_any_plan(
    given: Plan | bytes, roots: Collection[str], *, allow_unsigned: bool
) -> AcceptedPlan:
    """Read what a reporter was given: an envelope; or a plan, where unsigned ones are allowed.

    Raises:
        PlanRefused: as :func:`read_signed_plan`.
        FatalError: the library for signatures is not installed.
    """
    if not isinstance(given, Plan):
        try:
            return read_signed_plan(given, roots)
        except PlanRefused as refused:
            if refused.reason is not Refusal.UNSIGNED or not allow_unsigned:
                raise
        given = read_device_plan(given)
    if not allow_unsigned:
        raise _unsigned()
    return AcceptedPlan(given, None)


def standing(accepted: AcceptedPlan, policy: Policy, present: int) -> PlanRefused | None:
    """Return why a plan that was read is not accepted now; None where it is.

    Args:
        accepted: as read.
        policy: in force.
        present: the later of clock and mark, seconds since the epoch.
    """
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


def _signed_plan(raw: bytes) -> Plan:
    """The plan in bytes that were signed."""
    try:
        plan = read_device_plan(raw)
    except PlanError as error:
        raise PlanRefused(Refusal.UNREADABLE_PLAN, str(error)) from None
    if plan.version < 2 or not plan.lineage_name:
        raise PlanRefused(
            Refusal.UNREADABLE_PLAN, "a signed plan has version 2 and states lineage_name"
        )
    # The plan keeps its digest, which every report needs: one serialisation serves both.
    if plan.digest != hashlib.sha256(raw).hexdigest():
        raise PlanRefused(Refusal.UNREADABLE_PLAN, "the plan is not in its canonical form")
    return plan


def _no_envelope(raw: bytes, error: ValueError) -> PlanRefused:
    try:
        read_device_plan(raw)
    except PlanError as second:
        return PlanRefused(Refusal.MALFORMED, f"neither an envelope ({error}) nor a plan: {second}")
    return _unsigned()


def _unsigned() -> PlanRefused:
    return PlanRefused(
        Refusal.UNSIGNED,
        "sign it (calmstream sign); demonstrations and tests say allow_unsigned=True",
    )
