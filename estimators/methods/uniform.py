"""The uniform table, a baseline: a method with a larger error than it is of no use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from calmstream.estimators.domain import Attributes, Domain
from calmstream.estimators.marginal import Marginal, uniform
from calmstream.estimators.mechanisms.adaptive import adaptive
from calmstream.estimators.methods.base import Design, Request
from calmstream.estimators.methods.packing import only_parameters
from calmstream.estimators.plan import Group, Plan
from calmstream.estimators.tally import Tally
from calmstream.estimators.view import View


class Uniform:
    """The uniform table, whatever is reported; a method with a larger error is of no use."""

    name: ClassVar[str] = "uniform"
    baseline: ClassVar[bool] = True

    def design(self, request: Request) -> Design:
        only_parameters(self.name, request.parameters)
        mechanism = adaptive(request.epsilon, request.domain.cardinalities[0])
        return Design(
            groups=(Group(mechanism, views=(View((0,)),), shares=(1,)),),
            parameters={},
            reason=("baseline: answers with the uniform table, whatever devices report",),
        )

    def fit(self, plan: Plan, tallies: Sequence[Tally]) -> UniformModel:
        del tallies
        return UniformModel(plan.domain)


class UniformModel:
    """Answers every marginal with its uniform table."""

    def __init__(self, domain: Domain) -> None:
        self._domain = domain

    def marginal(self, attributes: Attributes) -> Marginal:
        return uniform(attributes, self._domain.size(attributes))
