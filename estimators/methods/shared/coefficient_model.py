"""The common part of methods whose views are Fourier coefficients of the record.

It has the weights of views, the expected errors of a design, and the fitted model. A view is what a
device reports on, here the value of one coefficient (or of all multiples of it).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import comb
from typing import Protocol, Self, runtime_checkable

import numpy as np

from calmstream.common.errors import PlanError
from calmstream.estimators.domain import Attributes, Domain
from calmstream.estimators.linear import (
    MAX_COVARIANCE_CELLS,
    Estimate,
    Floats,
    LinearModel,
    even_counts,
    require_at_most,
)
from calmstream.estimators.mechanisms.base import Counts, Covariance, Mechanism
from calmstream.estimators.mechanisms.registry import build
from calmstream.estimators.methods.base import Design
from calmstream.estimators.methods.shared.coefficients import Recovery, Structure, ViewEvidence
from calmstream.estimators.numerics.expected_error import by_cardinalities, mean_error
from calmstream.estimators.plan import Plan
from calmstream.estimators.plan.request import Request
from calmstream.estimators.tally import Tally
from calmstream.estimators.view import View

SHARE_SCALE = 1 << 20
"""Largest share of a view. Shares are integers; this keeps their rounding errors negligible."""


@dataclass(frozen=True, slots=True)
class CoefficientFamily:
    """The views of a method, and the tables for which the reports of each may be used.

    Attributes:
        owners: for each view the only marginal for which its reports are used, and for its subsets;
            None if reports are used for all marginals.
    """

    method: str
    k: int
    views: tuple[View, ...]
    owners: tuple[Attributes, ...] | None = None


@runtime_checkable
class CoefficientMethod(Protocol):
    """A method that states the tables for which each of its views may be used."""

    def family(self, domain: Domain, k: int, views: Sequence[View]) -> CoefficientFamily:
        """Return the views with the tables for which each may be used."""


def weights(request: Request, touched: Sequence[int]) -> list[int]:
    """Return the shares of the views by the parameter ``weighting``.

    They are equal (``even``), or proportional to the square root of the number of k-way marginals
    that contain the view (``coverage``).
    """
    weighting = request.parameters.get("weighting", "even")
    if weighting == "even":
        return [1] * len(touched)
    if weighting != "coverage":
        raise PlanError(f"parameter weighting must be even or coverage, got {weighting!r}")
    d, k = len(request.domain), request.k
    roots = [comb(d - s, k - s) ** 0.5 for s in touched]
    return [max(1, round(SHARE_SCALE * root / max(roots))) for root in roots]


def expected_errors(method: CoefficientMethod, request: Request, design: Design) -> Design:
    """Return the design with its expected errors on uniform data."""
    views = [view for group in design.groups for view in group.views]
    shares = [share for group in design.groups for share in group.shares]
    mechanisms = [
        mechanism
        for group in design.groups
        for mechanism in [build(group.mechanism, request.epsilon)] * len(group.views)
    ]
    reports = even_counts(request.users, shares)
    family = method.family(request.domain, request.k, views)
    known: dict[tuple[Mechanism, int], ViewEvidence] = {}

    def read(view: int) -> ViewEvidence:
        mechanism, n = mechanisms[view], int(reports[view])
        if (mechanism, n) not in known:
            even = np.full(mechanism.cells, 1.0 / mechanism.cells)
            known[mechanism, n] = ViewEvidence(even, mechanism.covariance(n, even))
        return known[mechanism, n]

    structure = Structure(request.domain, family.views, family.owners)
    recovery = Recovery(structure, reports, precision(mechanisms), read)
    domain = request.domain
    error = by_cardinalities(domain, lambda a: float(recovery.variance(a).sum()))
    errors = mean_error(domain, request.k, error)
    return replace(design, expected_sse=errors)


def precision(mechanisms: Sequence[Mechanism]) -> Floats:
    """Return for each view the inverse variance of its coefficient from one report: (views,)."""
    precisions = {m: 1.0 / float(m.variance(1).sum()) for m in set(mechanisms)}
    return np.array([precisions[m] for m in mechanisms])


class CoefficientModel(LinearModel):
    """A model that answers by the inverse transform of the estimated coefficients."""

    def __init__(self, domain: Domain, family: CoefficientFamily, recovery: Recovery) -> None:
        super().__init__(domain)
        self._family = family
        self._recovery = recovery

    @classmethod
    def of(
        cls,
        plan: Plan,
        tallies: Sequence[Tally],
        family: Callable[[Domain, int, Sequence[View]], CoefficientFamily],
    ) -> Self:
        """Return the model of a plan's tallies."""
        views = [view for group in plan.groups for view in group.views]
        roles = family(plan.domain, plan.k, views)
        mechanisms = [
            mechanism
            for group, mechanism in zip(plan.groups, plan.mechanisms, strict=True)
            for _ in group.views
        ]
        counts = [row for tally in tallies for row in tally.counts]
        reports = np.concatenate([tally.n for tally in tallies])

        def read(view: int) -> ViewEvidence:
            return _evidence(mechanisms[view], counts[view], int(reports[view]))

        structure = Structure(plan.domain, roles.views, roles.owners)
        recovery = Recovery(structure, reports, precision(mechanisms), read)
        return cls(plan.domain, roles, recovery)

    def estimate(self, attributes: Attributes) -> Estimate:
        """Return the raw table.

        It need not sum to 1 if an attribute has bit patterns that are no code.
        """
        require_at_most(self._family.k, attributes, self._domain, self._family.method)
        if self._recovery.reports == 0:
            cells = self._domain.size(attributes)
            return Estimate(np.full(cells, 1.0 / cells), np.zeros(cells), 0)
        return Estimate(*self._recovery.table(attributes))

    def covariance(self, attributes: Attributes) -> Floats:
        self._check(attributes, MAX_COVARIANCE_CELLS)
        require_at_most(self._family.k, attributes, self._domain, self._family.method)
        return self._recovery.covariance(attributes)


def _evidence(mechanism: Mechanism, counts: Counts, n: int) -> ViewEvidence:
    """Return the estimated table of one view, with its covariance."""
    if n == 0:
        even = np.full(mechanism.cells, 1.0 / mechanism.cells)
        return ViewEvidence(np.zeros(mechanism.cells), Covariance(even, np.zeros((len(even), 1))))
    table = mechanism.estimate(counts, n)
    positive = np.maximum(table, 0.0)
    likely = positive / positive.sum() if positive.sum() > 0.0 else positive + 1.0 / len(table)
    return ViewEvidence(table, mechanism.covariance(n, likely))
