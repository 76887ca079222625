"""A method for calmstream in a package of its own: every device reports one attribute.

`pip install ./examples/one_way`; then `calmstream plan --method one-way` and all that follows know
it. The contract is `calmstream.estimators.methods.base.Method`. Its mechanism is in `one_cell`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from calmstream.common.errors import PlanError
from calmstream.estimators.domain import Attributes
from calmstream.estimators.marginal import Marginal, flagged
from calmstream.estimators.mechanisms.registry import standard
from calmstream.estimators.methods.base import Design, Request
from calmstream.estimators.plan import Group, Plan
from calmstream.estimators.tally import Tally
from calmstream.estimators.view import View


class OneWay:
    """Every device reports one attribute; larger tables are products of the attributes' tables."""

    name: ClassVar[str] = "one-way"
    baseline: ClassVar[bool] = False

    def design(self, request: Request) -> Design:
        """Make a group of each attribute, all of the same share."""
        if request.parameters:
            raise PlanError("method one-way has no parameters")
        groups = tuple(
            Group(standard("one-cell", request.epsilon, labels), (View((place,)),), (1,))
            for place, labels in enumerate(request.domain.cardinalities)
        )
        return Design(groups, {}, ("one attribute a device",))

    def fit(self, plan: Plan, tallies: Sequence[Tally]) -> Product:
        """Estimate each attribute's table from the counts of its group."""
        tables, errors = [], []
        for mechanism, tally in zip(plan.mechanisms, tallies, strict=True):
            n = int(tally.n[0])
            even = np.full(mechanism.cells, 1.0 / mechanism.cells)
            table = np.maximum(mechanism.estimate(tally.counts[0], n), 0.0) if n else even
            table = table / table.sum() if table.sum() else even
            tables.append(table)
            errors.append(np.sqrt(mechanism.variance(n, table)) if n else np.ones(len(even)))
        return Product(tables, errors, [int(tally.n.sum()) for tally in tallies])


class Product:
    """Answers with products of the tables of single attributes."""

    def __init__(
        self, tables: list[np.ndarray], errors: list[np.ndarray], reports: list[int]
    ) -> None:
        self._tables, self._errors, self._reports = tables, errors, reports

    def marginal(self, attributes: Attributes) -> Marginal:
        """Return the product, with errors of the first order."""
        table, square = np.ones(1), np.zeros(1)
        for place in attributes:
            own, error = self._tables[place], self._errors[place]
            square = np.outer(square, own**2) + np.outer(table**2, error**2)
            table, square = np.outer(table, own).ravel(), square.ravel()
        reports = min(self._reports[place] for place in attributes)
        stderr = np.minimum(np.sqrt(square), 1.0)
        return flagged(attributes, table, stderr, reports, (), clipped=False)
