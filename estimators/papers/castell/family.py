"""The step from a tally to a model, common to methods whose devices report whole records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from calmstream.common.errors import PlanError
from calmstream.estimators.mechanisms.base import Mechanism
from calmstream.estimators.papers.castell.model import ProductModel
from calmstream.estimators.papers.castell.product_grr import ProductGRR
from calmstream.estimators.plan import Plan
from calmstream.estimators.tally import Tally

M = TypeVar("M", bound="Mechanism")


def only_mechanism(plan: Plan, kind: type[M]) -> M:
    """Return the mechanism of a plan whose method is defined for one kind of mechanism only."""
    mechanism = plan.mechanisms[0]
    if not isinstance(mechanism, kind) or len(plan.groups) != 1:
        raise PlanError(f"method {plan.method} needs exactly one group, with mechanism {kind.name}")
    return mechanism


def fit_product(plan: Plan, tallies: Sequence[Tally], scheme: str) -> ProductModel:
    """Return the model of a plan with one group of devices that report whole records."""
    mechanism = only_mechanism(plan, ProductGRR)
    tally = tallies[0]
    return ProductModel(plan.domain, mechanism, tally.counts[0], int(tally.n[0]), scheme)
