"""The common part of methods whose views are Fourier coefficients of the record."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from calmstream.estimators.domain import Attributes, Domain
from calmstream.estimators.marginal import MAX_COVARIANCE_CELLS
from calmstream.estimators.mechanisms.base import Counts, Covariance, Mechanism
from calmstream.estimators.papers.cormode.coefficients import Recovery, ViewEvidence
from calmstream.estimators.papers.cormode.linear import (
    Estimate,
    Floats,
    LinearModel,
    likely,
    require_at_most,
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
        views = [view for group in plan.groups for view in group.views]
        mechanisms = [m for group, m in zip(plan.groups, plan.mechanisms, strict=True)
                      for _ in group.views]  # fmt: skip
        counts = [row for tally in tallies for row in tally.counts]
        reports = np.concatenate([tally.n for tally in tallies])

        def read(view: int) -> ViewEvidence:
            return _evidence(mechanisms[view], counts[view], int(reports[view]))

        owners = self.owners(plan.domain, plan.k, views)
        recovery = Recovery(plan.domain, views, owners, reports, _precision(mechanisms), read)
        return CoefficientModel(plan, recovery)


def _precision(mechanisms: Sequence[Mechanism]) -> Floats:
    """Return for each view the inverse variance of its coefficient from one report: (views,)."""
    precisions = {m: 1.0 / float(m.variance(1).sum()) for m in set(mechanisms)}
    return np.array([precisions[m] for m in mechanisms])


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


def _evidence(mechanism: Mechanism, counts: Counts, n: int) -> ViewEvidence:
    """Return the estimated table of one view, with its covariance."""
    if n == 0:
        even = np.full(mechanism.cells, 1.0 / mechanism.cells)
        return ViewEvidence(np.zeros(mechanism.cells), Covariance(even, np.zeros((len(even), 1))))
    table = mechanism.estimate(counts, n)
    return ViewEvidence(table, mechanism.covariance(n, likely(table)))
