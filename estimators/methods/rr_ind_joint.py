"""RR-Ind-Joint (Castell) and two variants: attributes randomised one by one, then inverted."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from estimators.castell.design import (
    choose_tables,
    expected_errors,
    loss_reason,
    product_group,
)
from estimators.castell.family import fit_product
from estimators.methods.base import Answers, Design
from estimators.methods.shared.options import only_parameters

if TYPE_CHECKING:
    from collections.abc import Sequence

    from estimators.castell.model import ProductModel
    from estimators.plan import Plan
    from estimators.plan.request import Request
    from estimators.tally import Tally

_HOW = {
    "joint": "joints by the castell inverse: unbiased, hopeless once prod M / n is large",
    "hybrid": "per marginal the castell inverse or the product, by predicted error",
    "truncated": "castell inverse, negatives to 0, capped by the (w-1)-way estimates",
}


class RRIndJoint:
    """Registry name ``rr-ind-joint``; parameter ``tables``: see `choose_tables`.

    The two subclasses collect the same counts and differ in the recovery only.
    """

    name: ClassVar[str] = "rr-ind-joint"
    baseline: ClassVar[bool] = False
    answers: ClassVar[Answers] = "blocks"
    scheme: ClassVar[str] = "joint"

    def design(self, request: Request) -> Design:
        """Choose one block per attribute, and the smaller of joint and k-way tables."""
        only_parameters(self.name, request.parameters, "tables")
        tables = choose_tables(request.domain, request.k, request.parameters)
        single = tuple((i,) for i in range(len(request.domain)))
        group, mechanism = product_group(request, single, tables.sets)
        reason = (loss_reason(mechanism), tables.reason, _HOW[self.scheme])
        # Of the hybrid and the truncated scheme this is the most that noise can do.
        return Design((group,), {}, reason, expected_errors(mechanism, request, joint=True))

    def fit(self, plan: Plan, tallies: Sequence[Tally]) -> ProductModel:
        """Fit by the class's scheme; see :mod:`estimators.castell.schemes`."""
        return fit_product(plan, tallies, self.scheme)


class RRHybrid(RRIndJoint):
    """Registry name ``rr-hybrid``: see :func:`estimators.castell.schemes.hybrid`."""

    name: ClassVar[str] = "rr-hybrid"
    scheme: ClassVar[str] = "hybrid"


class RRTruncated(RRIndJoint):
    """Registry name ``rr-truncated``: see :func:`estimators.castell.schemes.truncated`."""

    name: ClassVar[str] = "rr-truncated"
    scheme: ClassVar[str] = "truncated"
