"""What the recoveries of all product methods share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from estimators.castell.model import ProductModel
from estimators.errors import PlanError
from estimators.mechanisms.product_grr import ProductGRR

if TYPE_CHECKING:
    from collections.abc import Sequence

    from estimators.plan import Plan
    from estimators.tally import Tally


def fit_product(plan: Plan, tallies: Sequence[Tally], scheme: str) -> ProductModel:
    """The model of a plan with one group of whole records.

    Raises:
        PlanError: the plan's group is not of that kind.
    """
    mechanism = plan.mechanisms[0]
    if not isinstance(mechanism, ProductGRR) or len(plan.groups) != 1:
        raise PlanError(f"method {plan.method} goes with one group of mechanism product-grr")
    tally = tallies[0]
    return ProductModel(plan.domain, mechanism, tally.counts[0], int(tally.n[0]), scheme)
