"""RR-Ind-Joint and two variants: randomised response per attribute, joint tables by its inverse.

They differ in the recovery only. Source: Castell (Kikuchi, Domingo-Ferrer and Soria-Comas).
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from calmstream.common.errors import PlanError
from calmstream.estimators.methods.base import Design, Request
from calmstream.estimators.papers.castell.design import BlockMethod
from calmstream.estimators.plan import Plan


class RRIndJoint(BlockMethod):
    """Every attribute with a part of epsilon; tables by the inverse; for a large epsilon, pilots.

    It is the paper's RR-Ind-Joint.
    """

    name: ClassVar[str] = "rr-ind-joint"
    scheme: ClassVar[str] = "joint"
    recovery: ClassVar[str] = (
        "tables by the inverse of each attribute's randomised response: unbiased; the noise grows "
        "with the product over the attributes"
    )


class RRHybrid(BlockMethod):
    """As rr-ind-joint or as rr-independent, table by table, whichever should err less."""

    name: ClassVar[str] = "rr-hybrid"
    recovery: ClassVar[str] = (
        "each table by the inverse or by the product of single attributes, whichever has the "
        "smaller predicted error"
    )
    parameters: ClassVar[tuple[str, ...]] = ("tables", "rule")

    def design(self, request: Request) -> Design:
        """Choose as the others; the parameter ``rule`` is ``error``, or ``bounds`` of the paper."""
        rule = request.parameters.get("rule", "error")
        if rule not in ("error", "bounds"):
            raise PlanError(f"parameter rule must be error or bounds, got {rule!r:.40}")
        design = super().design(request)
        return replace(design, parameters={"rule": rule} if rule == "bounds" else {})

    def scheme_of(self, plan: Plan) -> str:
        return "hybrid-bounds" if plan.parameters.get("rule") == "bounds" else "hybrid"


class RRTruncated(BlockMethod):
    """As rr-ind-joint; negative cells become 0, and smaller tables limit the cells."""

    name: ClassVar[str] = "rr-truncated"
    scheme: ClassVar[str] = "truncated"
    recovery: ClassVar[str] = (
        "tables by the inverse; then negative cells become 0, and no cell is larger than its sums "
        "over one attribute"
    )
