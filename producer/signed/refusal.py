"""Why a device does not accept a plan: a closed list, the same in every language."""

from __future__ import annotations

from enum import StrEnum

from estimators.errors import PlanError


class Refusal(StrEnum):
    """Why a plan is not accepted. The first reason that applies is given.

    The form of the certificate is checked before the root is looked up, its signature afterwards;
    both give ``BAD_CERTIFICATE``.
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
    """A device does not accept a plan; its ledger stays as it was.

    Attributes:
        reason: from the closed list.
        detail: one line for people.
    """

    def __init__(self, reason: Refusal, detail: str) -> None:
        super().__init__(f"plan refused ({reason.value}): {detail}")
        self.reason = reason
        self.detail = detail
