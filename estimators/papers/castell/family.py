"""The common part of methods whose devices randomise every block of a record's attributes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, TypeVar

from calmstream.common.errors import PlanError
from calmstream.estimators.domain import Attributes
from calmstream.estimators.mechanisms.base import Mechanism
from calmstream.estimators.methods.base import Design
from calmstream.estimators.methods.packing import only_parameters
from calmstream.estimators.papers.castell.design import (
    KeptTables,
    choose_tables,
    loss_reason,
    product_group,
)
from calmstream.estimators.papers.castell.model import ProductModel
from calmstream.estimators.papers.castell.product_grr import ProductGRR
from calmstream.estimators.plan import Plan
from calmstream.estimators.plan.request import Request
from calmstream.estimators.tally import Tally

M = TypeVar("M", bound=Mechanism)


class BlockMethod:
    """Blocks, here every attribute, the tables counted (`choose_tables`), and one of `schemes`."""

    name: ClassVar[str]
    baseline: ClassVar[bool] = False
    parameters: ClassVar[tuple[str, ...]] = ("tables",)
    scheme: ClassVar[str]
    recovery: ClassVar[str]
    """How tables are recovered, for people who read a plan."""

    def blocks(self, request: Request) -> tuple[Attributes, ...]:
        return single(request)

    def tables(self, request: Request) -> KeptTables:
        return choose_tables(request.domain, request.k, request.parameters)

    def design(self, request: Request) -> Design:
        only_parameters(self.name, request.parameters, *self.parameters)
        blocks, tables = self.blocks(request), self.tables(request)
        group, mechanism = product_group(request, blocks, tables.sets)
        return Design((group,), {}, (loss_reason(mechanism), tables.reason, self.recovery))

    def fit(self, plan: Plan, tallies: Sequence[Tally]) -> ProductModel:
        return self.model(plan, tallies, self.scheme)

    @staticmethod
    def model(plan: Plan, tallies: Sequence[Tally], scheme: str) -> ProductModel:
        return ProductModel(plan.domain, only_mechanism(plan, ProductGRR), tallies[0], scheme)


def single(request: Request) -> tuple[Attributes, ...]:
    return tuple((i,) for i in range(len(request.domain)))


def only_mechanism(plan: Plan, kind: type[M]) -> M:
    """Return the mechanism of a plan whose method is defined for one kind of mechanism only."""
    mechanism = plan.mechanisms[0]
    if not isinstance(mechanism, kind) or len(plan.groups) != 1:
        raise PlanError(f"method {plan.method} needs exactly one group, with mechanism {kind.name}")
    return mechanism
