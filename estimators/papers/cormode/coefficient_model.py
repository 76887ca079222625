"""The common part of methods whose views are Fourier coefficients of the record."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from calmstream.estimators.domain import Attributes, Domain
from calmstream.estimators.marginal import MAX_COVARIANCE_CELLS
from calmstream.estimators.mechanisms.base import Covariance
from calmstream.estimators.papers.cormode.coefficients import Recovery, ViewEvidence
from calmstream.estimators.papers.cormode.linear import (
    Estimate,
    Floats,
    LinearModel,
    ViewCounts,
    likely,
    precisions,
    require_at_most,
    views_of,
)
from calmstream.estimators.plan import Plan
from calmstream.estimators.tally import Tally
from calmstream.estimators.view import View


class CoefficientMethod:
    """A method of coefficients: `fit`."""

    name: ClassVar[str]
    baseline: ClassVar[bool] = False

    def owners(
        self,
        domain: Domain,  # noqa: ARG002
        k: int,  # noqa: ARG002
        views: Sequence[View],  # noqa: ARG002
    ) -> Sequence[Attributes] | None:
        """Return for each view the only marginal that it serves, with its subsets; None for all."""
        return None

    def fit(self, plan: Plan, tallies: Sequence[Tally]) -> CoefficientModel:
        found = views_of(plan, tallies)
        views = [one.view for one in found]

        def read(view: int) -> ViewEvidence:
            return _evidence(found[view])

        owners = self.owners(plan.domain, plan.k, views)
        reports = np.array([one.reports for one in found])
        precision = precisions([one.mechanism for one in found])
        recovery = Recovery(plan.domain, views, owners, reports, precision, read)
        return CoefficientModel(plan, recovery)


class CoefficientModel(LinearModel):
    """A model that answers by the inverse transform of the estimated coefficients."""

    def __init__(self, plan: Plan, recovery: Recovery) -> None:
        super().__init__(plan.domain)
        self._k, self._method = plan.k, plan.method
        self._recovery = recovery

    def estimate(self, attributes: Attributes) -> Estimate:
        """Return the raw table.

        It need not sum to 1 if an attribute has bit patterns that are no code.
        """
        require_at_most(self._k, attributes, self._domain, self._method)
        if self._recovery.reports == 0:
            cells = self._domain.size(attributes)
            return Estimate(np.full(cells, 1.0 / cells), np.zeros(cells), 0)
        return Estimate(*self._recovery.table(attributes))

    def covariance(self, attributes: Attributes) -> Floats:
        self._check(attributes, MAX_COVARIANCE_CELLS)
        require_at_most(self._k, attributes, self._domain, self._method)
        return self._recovery.covariance(attributes)


def _evidence(one: ViewCounts) -> ViewEvidence:
    """Return the estimated table of one view, with its covariance."""
    mechanism, n = one.mechanism, one.reports
    if n == 0:
        even = np.full(mechanism.cells, 1.0 / mechanism.cells)
        return ViewEvidence(np.zeros(mechanism.cells), Covariance(even, np.zeros((len(even), 1))))
    table = mechanism.estimate(one.counts, n)
    return ViewEvidence(table, mechanism.covariance(n, likely(table)))
