"""Decides which plans a device accepts.

A device accepts a plan that an operator with a trusted root key has signed, and whose reports cost
no more than the policy allows for one report. The *policy* is the application's own list of limits.
``docs/signed-plans.md`` defines the checks and their order. They do not depend on a record, and
they write nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from dataclasses import dataclass
from decimal import Decimal

from calmstream.common.errors import PlanError
from calmstream.estimators.plan import Plan
from calmstream.producer.device.policy import Policy
from calmstream.producer.device.read_plan import read_device_plan
from calmstream.producer.signed.certificate import Statement
from calmstream.producer.signed.envelope import read_envelope
from calmstream.producer.signed.lineage import signed_lineage
from calmstream.producer.signed.refusal import PlanRefused, Refusal
from calmstream.producer.signed.verify import verify


@dataclass(frozen=True, slots=True, eq=False)
class AcceptedPlan:
    """A plan and, if it is signed, the verified statement about its signer.

    Attributes:
        plan: the plan.
        statement: the statement of the certificate; None for an unsigned plan.
    """

    plan: Plan
    statement: Statement | None

    @property
    def root(self) -> str:
        """The root key of the certificate; empty for an unsigned plan."""
        return "" if self.statement is None else self.statement.root

    @property
    def owner(self) -> str:
        """The party responsible for the plan."""
        return self.plan.owner if self.statement is None else self.statement.owner


def read_signed_plan(raw: bytes, roots: Collection[str] | None) -> AcceptedPlan:
    """Verify an envelope and read its plan. The cost is bounded, whatever the bytes are.

    This function checks neither dates nor the other limits of a policy; :func:`standing` does.

    Args:
        raw: the bytes of the envelope: a plan with its signature and certificate.
        roots: trusted public root keys; None accepts the root that the envelope itself names.

    Raises:
        PlanRefused: the reason is ``MALFORMED``; or ``UNSIGNED`` if the bytes are a plan without an
            envelope; or it concerns the certificate, the signatures, the plan or the lineage.
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
    """Read the plan that an application gives to a reporter.

    Args:
        given: the bytes of an envelope; or, if unsigned plans are allowed, a plan or its document.
        roots: trusted public root keys.
        allow_unsigned: whether an unsigned plan is accepted.

    Raises:
        PlanRefused: as for :func:`read_signed_plan`.
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
    """Return why the device does not accept a plan at present, or None if it accepts it.

    Args:
        accepted: the plan, already read and verified.
        policy: the policy of the device.
        present: present time in seconds since the epoch, from
            `Totals.present`.
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
    """Read the plan from the bytes that were signed, and check the rules for signed plans."""
    try:
        plan = read_device_plan(raw)
    except PlanError as error:
        raise PlanRefused(Refusal.UNREADABLE_PLAN, str(error)) from None
    if plan.version < 2 or not plan.lineage_name:
        raise PlanRefused(
            Refusal.UNREADABLE_PLAN, "a signed plan has version 2 and states lineage_name"
        )
    # The digest comes from the canonical form, so equal digests prove that the bytes are canonical.
    # The plan keeps the digest for its reports; a second serialisation is not needed.
    if plan.digest != hashlib.sha256(raw).hexdigest():
        raise PlanRefused(Refusal.UNREADABLE_PLAN, "the plan is not in its canonical form")
    return plan


def _no_envelope(raw: bytes, error: ValueError) -> PlanRefused:
    """Return why bytes that are not an envelope are refused: an unsigned plan, or not even that."""
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
