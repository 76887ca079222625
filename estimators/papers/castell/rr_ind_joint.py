"""RR-Ind-Joint and two variants: randomised response per attribute, joint tables by its inverse.

A device perturbs each attribute independently with a part of epsilon. The methods are those of
Castell (Kikuchi, Domingo-Ferrer and Soria-Comas); see docs/methods/whole-records.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from calmstream.estimators.methods.base import Design
from calmstream.estimators.methods.notes import EXACT, JOINT, Note
from calmstream.estimators.methods.shared.options import only_parameters
from calmstream.estimators.papers.castell.design import (
    choose_tables,
    expected_errors,
    loss_reason,
    product_group,
)
from calmstream.estimators.papers.castell.family import fit_product
from calmstream.estimators.papers.castell.model import ProductModel
from calmstream.estimators.plan import Plan
from calmstream.estimators.plan.request import Request
from calmstream.estimators.tally import Tally

_RECOVERY = {
    "joint": (
        "tables by the inverse of each attribute's randomised response: unbiased; the noise grows "
        "with the product over the attributes"
    ),
    "hybrid": (
        "each table by the inverse or by the product of single attributes, whichever has the "
        "smaller predicted error"
    ),
    "truncated": (
        "tables by the inverse; then negative cells become 0, and no cell is larger than its sums "
        "over one attribute"
    ),
}
"""How each scheme recovers tables, for people who read a plan."""


class RRIndJoint:
    """RR-Ind-Joint: one block per attribute, tables by the inverse of all blocks' responses.

    Its registry name is ``rr-ind-joint``. The parameter ``tables`` names tables to keep, see
    `choose_tables`. The two subclasses collect the same counts and differ in the recovery only.
    """

    name: ClassVar[str] = "rr-ind-joint"
    note: ClassVar[Note] = Note(
        "every attribute, each with a part of epsilon",
        "inverse of the channels, axis by axis",
        "a large epsilon for each attribute (about 4); pilots of rr-clusters",
        "Kikuchi, Domingo-Ferrer, Soria-Comas, Castell",
        expected=EXACT,
        raw=True,
    )
    baseline: ClassVar[bool] = False
    scheme: ClassVar[str] = "joint"

    def design(self, request: Request) -> Design:
        only_parameters(self.name, request.parameters, "tables")
        tables = choose_tables(request.domain, request.k, request.parameters)
        single = tuple((i,) for i in range(len(request.domain)))
        group, mechanism = product_group(request, single, tables.sets)
        reason = (loss_reason(mechanism), tables.reason, _RECOVERY[self.scheme])
        # For the hybrid and the truncated scheme this is an upper bound of the error by noise.
        return Design((group,), {}, reason, expected_errors(mechanism, request, joint=True))

    def fit(self, plan: Plan, tallies: Sequence[Tally]) -> ProductModel:
        return fit_product(plan, tallies, self.scheme)


class RRHybrid(RRIndJoint):
    """RR-Hybrid (``rr-hybrid``): the inverse or the product, whichever should err less.

    The rule is `hybrid`.
    """

    name: ClassVar[str] = "rr-hybrid"
    note: ClassVar[Note] = Note(
        "every attribute, each with a part of epsilon",
        "rr-ind-joint or rr-independent, whichever has the smaller predicted error",
        "as rr-ind-joint, for larger tables or a smaller epsilon",
        "Kikuchi, Domingo-Ferrer, Soria-Comas, Castell",
        expected=JOINT,
        raw=True,
    )
    scheme: ClassVar[str] = "hybrid"


class RRTruncated(RRIndJoint):
    """RR-Truncated (``rr-truncated``): the inverse, its cells limited by those of smaller tables.

    The rule is `truncated`.
    """

    name: ClassVar[str] = "rr-truncated"
    note: ClassVar[Note] = Note(
        "every attribute, each with a part of epsilon",
        "rr-ind-joint; negative cells become 0, and smaller tables limit the cells",
        "to reproduce the paper",
        "Kikuchi, Domingo-Ferrer, Soria-Comas, Castell",
        expected=JOINT,
        raw=True,
    )
    scheme: ClassVar[str] = "truncated"
