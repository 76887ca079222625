"""RR-Joint: randomised response on the record as a whole (Domingo-Ferrer and Soria-Comas)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from calmstream.estimators.methods.base import Design
from calmstream.estimators.methods.notes import EXACT, Note
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


class RRJoint:
    """RR-Joint: randomised response over all values of a record, with the whole epsilon.

    Its registry name is ``rr-joint``. The parameter ``tables`` names tables to keep, see
    `choose_tables`. The marginal of a randomised record is randomised response of the marginal, so
    the inverse has a closed form and each marginal is estimated from its own table.
    """

    name: ClassVar[str] = "rr-joint"
    note: ClassVar[Note] = Note(
        "the whole record as one value, by randomised response",
        "inverse of the channel",
        "to reproduce the papers; records of a handful of values only",
        "Domingo-Ferrer, Soria-Comas, TKDE 2022",
        expected=EXACT,
        raw=True,
    )
    baseline: ClassVar[bool] = False

    def design(self, request: Request) -> Design:
        only_parameters(self.name, request.parameters, "tables")
        tables = choose_tables(request.domain, request.k, request.parameters)
        everything = tuple(range(len(request.domain)))
        group, mechanism = product_group(request, (everything,), tables.sets)
        reason = (loss_reason(mechanism), tables.reason)
        return Design((group,), {}, reason, expected_errors(mechanism, request, joint=True))

    def fit(self, plan: Plan, tallies: Sequence[Tally]) -> ProductModel:
        return fit_product(plan, tallies, "joint")
