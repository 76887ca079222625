"""The reasons why a device does not accept a plan: a closed list, the same in every language."""

from __future__ import annotations

from enum import StrEnum

from calmstream.common.errors import PlanError


class Refusal(StrEnum):
    """Reasons to refuse a plan, in the order of the checks; the first that applies is reported.

    ``BAD_CERTIFICATE`` has two checks: the form of the certificate before ``UNKNOWN_ROOT``, and its
    signature after it.

    Attributes:
        MALFORMED: the bytes are neither an envelope nor a plan.
        UNSIGNED: the plan has no signature, and unsigned plans are not allowed.
        BAD_CERTIFICATE: the certificate is malformed, or the root has not signed it.
        UNKNOWN_ROOT: the policy does not trust the root key.
        BAD_SIGNATURE: the certified key has not signed the plan.
        UNREADABLE_PLAN: a device cannot read the plan, or it breaks the rules for signed plans.
        WRONG_LINEAGE: the plan's lineage does not result from the root key and its name.
        EXPIRED_CERTIFICATE: the certificate is not valid now or at the plan's start.
        PURPOSE: the policy does not list the plan's purpose.
        REPORT_EPSILON: one report costs more than the policy allows.
    """

    MALFORMED = "malformed"
    UNSIGNED = "unsigned"
    BAD_CERTIFICATE = "bad_certificate"
    UNKNOWN_ROOT = "unknown_root"
    BAD_SIGNATURE = "bad_signature"
    UNREADABLE_PLAN = "unreadable_plan"
    WRONG_LINEAGE = "wrong_lineage"
    EXPIRED_CERTIFICATE = "expired_certificate"
    PURPOSE = "purpose"
    REPORT_EPSILON = "report_epsilon"


class PlanRefused(PlanError):  # noqa: N818 - it is an outcome, not a defect
    """A device does not accept a plan; its ledger is unchanged.

    Attributes:
        reason: the reason.
        detail: explanation for people, in one line.
    """

    def __init__(self, reason: Refusal, detail: str) -> None:
        super().__init__(f"plan refused ({reason.value}): {detail}")
        self.reason = reason
        self.detail = detail
