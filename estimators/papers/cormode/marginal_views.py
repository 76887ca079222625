"""Methods in which every device reports on one k-way table: AM, MargRR, MargPS.

Each of C(d, k) marginals has its share of the devices; smaller tables are averages, not consistent.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cache, cached_property, partial
from itertools import combinations
from math import comb
from typing import Any, ClassVar

import numpy as np

from calmstream.common.errors import PlanError
from calmstream.estimators.arrays import Floats, Indices
from calmstream.estimators.domain import Attributes, Domain
from calmstream.estimators.marginal import MAX_COVARIANCE_CELLS
from calmstream.estimators.mechanisms.adaptive import adaptive
from calmstream.estimators.mechanisms.base import Mechanism
from calmstream.estimators.mechanisms.registry import standard
from calmstream.estimators.methods.base import Design, Request
from calmstream.estimators.methods.packing import (
    Assigned,
    only_parameters,
    pack,
    require_views,
    statistic,
)
from calmstream.estimators.numerics import consistency
from calmstream.estimators.numerics.subsets import elementary
from calmstream.estimators.papers.cormode.full_domain import unary
from calmstream.estimators.papers.cormode.linear import (
    Estimate,
    LinearModel,
    precisions,
    require_at_most,
)
from calmstream.estimators.plan import Plan
from calmstream.estimators.plan.counted import CountedView, counted_views
from calmstream.estimators.tally import Tally
from calmstream.estimators.view import View

MAX_VIEW_CELLS = 1 << 20  # maximum number of cells of a table that a device reports on
MAX_TOTAL_CELLS = 1 << 24  # maximum number of cells of all tables together


class MarginalViews:
    """The common part of the three methods, which differ in the oracle over a table."""

    name: ClassVar[str]
    baseline: ClassVar[bool] = False
    parameters: ClassVar[tuple[str, ...]] = ()
    oracle: ClassVar[staticmethod[[Mapping[str, Any], str, int], Mechanism]]

    def design(self, request: Request) -> Design:
        only_parameters(self.name, request.parameters, *self.parameters)
        domain, d, k = request.domain, len(request.domain), request.k
        views, total = comb(d, k), elementary(domain.cardinalities, k)[k]
        require_views(self.name, views, f"tables of {k} attributes")
        largest = max(combinations(range(d), k), key=domain.size)
        if domain.size(largest) > MAX_VIEW_CELLS or total > MAX_TOTAL_CELLS:
            raise PlanError(
                f"method {self.name} would collect {views:,} tables of {total:,} cells in all, the "
                f"largest of {domain.size(largest):,}; at most {MAX_TOTAL_CELLS:,} and "
                f"{MAX_VIEW_CELLS:,} are planned: lower k or drop attributes"
            )
        sets = list(combinations(range(d), k))
        oracle = cache(partial(self.oracle, request.parameters, request.epsilon))
        mechanisms = [oracle(domain.size(s)) for s in sets]
        assigned = [Assigned(View(s), m) for s, m in zip(sets, mechanisms, strict=True)]
        groups = pack(assigned, request.max_groups, separate=True)
        each = max(request.users // views, 1)
        reason = (
            f"all {views:,} tables of {k} attributes, one per device; {each:,} reports a table",
            f"{' and '.join(sorted({m.name.upper() for m in mechanisms}))} by table size",
            statistic(groups),
        )
        return Design(groups, {}, reason)

    def fit(self, plan: Plan, tallies: Sequence[Tally]) -> MarginalTables:
        return MarginalTables(plan.domain, self.name, plan.k, counted_views(plan, tallies))


class AM(MarginalViews):
    """One table of k attributes, by GRR or OUE: unbiased; a baseline, for few attributes."""

    name: ClassVar[str] = "am"
    oracle = staticmethod(lambda _, epsilon, cells: adaptive(epsilon, cells))


class MargRR(MarginalViews):
    """One table of k attributes, a bit for each of its cells, by one of the oracles `UNARY`."""

    name: ClassVar[str] = "marg-rr"
    parameters = ("oracle",)
    oracle = staticmethod(unary)


class MargPS(MarginalViews):
    """One table of k attributes, by GRR; for small tables or a large epsilon."""

    name: ClassVar[str] = "marg-ps"
    oracle = staticmethod(lambda _, epsilon, cells: standard("grr", epsilon, cells))


class MarginalTables(LinearModel):
    """A model that averages the estimated tables, each weighted by the inverse of its variance."""

    def __init__(self, domain: Domain, method: str, k: int, views: Sequence[CountedView]) -> None:
        super().__init__(domain)
        self._method, self._k, self._views = method, k, views
        self._precision = precisions([one.mechanism for one in views])

    @cached_property
    def _holders(self) -> dict[int, list[int]]:
        """For each attribute, the numbers of the tables with reports that contain it."""
        holders: dict[int, list[int]] = defaultdict(list)
        for number, one in enumerate(self._views):
            if one.n:
                for i in one.view.attributes:
                    holders[i].append(number)
        return holders

    def estimate(self, attributes: Attributes) -> Estimate:
        """Return the weighted average of the tables' marginals: unbiased."""
        cells = self._domain.size(attributes)
        table, variance = np.zeros(cells), np.zeros(cells)
        parts = self._parts(attributes)
        for share, number in parts:
            own, indices = self._views[number], self._indices(number, attributes)
            table += share * np.bincount(indices, own.table, cells)
            noise = own.covariance.into(indices, cells)
            variance += share**2 * (noise.diagonal - np.square(noise.factors).sum(axis=1))
        reports = sum(self._views[number].n for _, number in parts)
        return Estimate(table, np.maximum(variance, 0.0), reports)

    def covariance(self, attributes: Attributes) -> Floats:
        cells = self._check(attributes, MAX_COVARIANCE_CELLS)
        total = np.zeros((cells, cells))
        for share, number in self._parts(attributes):
            own = self._views[number].covariance
            total += share**2 * own.into(self._indices(number, attributes), cells).dense()
        return total

    def _parts(self, attributes: Attributes) -> list[tuple[float, int]]:
        """Return weight (of sum 1) and number of every table with reports that contains them."""
        require_at_most(self._k, attributes, self._domain, self._method)
        tables = set.intersection(*(set(self._holders[i]) for i in attributes))
        cells = self._domain.size(attributes)
        weights = {v: self._views[v].n * cells * self._precision[v] for v in sorted(tables)}
        total = sum(weights.values())
        return [(weight / total, number) for number, weight in weights.items()]

    def _indices(self, number: int, attributes: Attributes) -> Indices:
        view = self._views[number].view
        return consistency.projection(view.attributes, attributes, self._domain.cardinalities)
