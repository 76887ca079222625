"""RR-Independent: randomised response per attribute; larger tables are products of 1-way tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from calmstream.estimators.methods.base import Design
from calmstream.estimators.methods.notes import PRODUCT, Note
from calmstream.estimators.methods.shared.options import only_parameters
from calmstream.estimators.papers.castell.design import expected_errors, loss_reason, product_group
from calmstream.estimators.papers.castell.family import fit_product
from calmstream.estimators.papers.castell.model import ProductModel
from calmstream.estimators.plan import Plan
from calmstream.estimators.plan.request import Request
from calmstream.estimators.tally import Tally


class RRIndependent:
    """RR-Independent (``rr-independent``), without parameters; it answers marginals of any size."""

    name: ClassVar[str] = "rr-independent"
    note: ClassVar[Note] = Note(
        "every attribute, each with a part of epsilon",
        "product of single attributes",
        "attributes known to be independent, tables of any size",
        "Domingo-Ferrer, Soria-Comas, TKDE 2022",
        expected=PRODUCT,
        raw=True,
    )
    baseline: ClassVar[bool] = False

    def design(self, request: Request) -> Design:
        only_parameters(self.name, request.parameters)
        single = tuple((i,) for i in range(len(request.domain)))
        group, mechanism = product_group(request, single, single)
        reason = (
            loss_reason(mechanism),
            f"counts the 1-way tables only, {mechanism.width:,} cells",
            "larger marginals are products of those, as if attributes were independent",
        )
        return Design((group,), {}, reason, expected_errors(mechanism, request, joint=False))

    def fit(self, plan: Plan, tallies: Sequence[Tally]) -> ProductModel:
        return fit_product(plan, tallies, "independent")
