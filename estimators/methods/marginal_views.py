"""Methods in which every device reports one k-way table: AM, MargRR, MargPS.

All C(d, k) marginals are collected, each by its own share of the devices; a k-way query is
the estimated table itself, a smaller one is averaged over the tables that hold it. Tables are not
made to agree, which CALM does.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import defaultdict
from functools import cached_property, lru_cache
from itertools import combinations
from math import comb
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from estimators.errors import PlanError
from estimators.linear import (
    MAX_COVARIANCE_CELLS,
    Estimate,
    Floats,
    LinearModel,
    collapse,
    dense,
    require_at_most,
)
from estimators.mechanisms import adaptive, standard
from estimators.mechanisms.base import Covariance
from estimators.methods.base import Answers, Design
from estimators.methods.shared.options import only_parameters
from estimators.methods.shared.packing import Assigned, pack, require_views, statistic
from estimators.numerics import consistency
from estimators.numerics.expected_error import by_cardinalities, mean_error
from estimators.numerics.subsets import elementary
from estimators.view import View

if TYPE_CHECKING:
    from collections.abc import Sequence

    from estimators.domain import Attributes, Domain
    from estimators.mechanisms.base import Counts, Mechanism
    from estimators.numerics.consistency import Indices
    from estimators.plan import Plan
    from estimators.plan.request import Request
    from estimators.tally import Tally

MAX_VIEW_CELLS = 1 << 20
"""Largest table that a device reports on."""

MAX_TOTAL_CELLS = 1 << 24
"""Most cells of all tables together."""


class MarginalViews:
    """The common part of the three methods; a subclass names its oracle."""

    name: ClassVar[str]
    baseline: ClassVar[bool] = False
    answers: ClassVar[Answers] = "tables"

    @abstractmethod
    def oracle(self, epsilon: str, cells: int) -> Mechanism:
        """The mechanism over the cells of one table."""

    def design(self, request: Request) -> Design:
        """Choose all k-way marginals, a group each while they fit.

        Raises:
            PlanError: too many or too large tables, with their number and size.
        """
        only_parameters(self.name, request.parameters)
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
        oracle = lru_cache(maxsize=None)(self.oracle)
        mechanisms = [oracle(request.epsilon, domain.size(s)) for s in sets]
        assigned = [Assigned(View(s), m) for s, m in zip(sets, mechanisms, strict=True)]
        groups = pack(assigned, request.max_groups, separate=True)
        each = max(request.users // views, 1)
        model = MarginalTables(domain, self.name, k, sets, mechanisms, None, [each] * views)
        reason = (
            f"all {views:,} tables of {k} attributes, one to a device; {each:,} reports a table",
            f"{' and '.join(sorted({m.name.upper() for m in mechanisms}))} by table size",
            statistic(groups, request.epsilon),
        )
        error = by_cardinalities(domain, lambda a: float(model.estimate(a).variance.sum()))
        expected = mean_error(domain, k, error)
        return Design(groups, {}, reason, expected)

    def fit(self, plan: Plan, tallies: Sequence[Tally]) -> MarginalTables:
        """Keep the counters; tables are estimated on request."""
        sets, mechanisms, counts, reports = [], [], [], []
        for group, mechanism, tally in zip(plan.groups, plan.mechanisms, tallies, strict=True):
            sets += [view.attributes for view in group.views]
            mechanisms += [mechanism] * len(group.views)
            counts += list(tally.counts)
            reports += tally.n.tolist()
        return MarginalTables(plan.domain, self.name, plan.k, sets, mechanisms, counts, reports)


class AM(MarginalViews):
    """Registry name ``am``: all marginals by GRR or OUE, CALM's baseline."""

    name: ClassVar[str] = "am"

    def oracle(self, epsilon: str, cells: int) -> Mechanism:
        """CALM's adaptive choice."""
        return adaptive(epsilon, cells)


class MargRR(MarginalViews):
    """Registry name ``marg-rr``: parallel randomised response on the cells, epsilon / 2 a bit."""

    name: ClassVar[str] = "marg-rr"

    def oracle(self, epsilon: str, cells: int) -> Mechanism:
        """SUE."""
        return standard("sue", epsilon, cells)


class MargPS(MarginalViews):
    """Registry name ``marg-ps``: preferential sampling, which is GRR on the table."""

    name: ClassVar[str] = "marg-ps"

    def oracle(self, epsilon: str, cells: int) -> Mechanism:
        """GRR."""
        return standard("grr", epsilon, cells)


class MarginalTables(LinearModel):
    """Tables as they were estimated, averaged with weights = inverse variance of a projection."""

    def __init__(
        self,
        domain: Domain,
        method: str,
        k: int,
        sets: Sequence[Attributes],
        mechanisms: Sequence[Mechanism],
        counts: Sequence[Counts] | None,
        reports: Sequence[int],
    ) -> None:
        """One entry per view; ``counts`` None is for variances on uniform data alone."""
        super().__init__(domain)
        self._method, self._k = method, k
        self._sets, self._mechanisms = sets, mechanisms
        self._counts, self._reports = counts, reports
        self._cache: dict[int, tuple[Floats, Covariance]] = {}

    @cached_property
    def _holders(self) -> dict[int, list[int]]:
        holders: dict[int, list[int]] = defaultdict(list)
        for number, attributes in enumerate(self._sets):
            if self._reports[number]:
                for i in attributes:
                    holders[i].append(number)
        return holders

    @cached_property
    def _precision(self) -> list[float]:
        """Inverse of a table's summed variance, of one report."""
        one = {m: 1.0 / float(m.variance(1).sum()) for m in set(self._mechanisms)}
        return [one[m] for m in self._mechanisms]

    def estimate(self, attributes: Attributes) -> Estimate:
        """Return the average projection; unbiased, need not sum to 1 (unary oracles)."""
        cells = self._domain.size(attributes)
        table, spread = np.zeros(cells), np.zeros(cells)
        parts = self._parts(attributes)
        for share, number in parts:
            own, noise = self._read(number)
            into = self._into(number, attributes)
            table += share * np.bincount(into, own, cells)
            known = collapse(noise.factors, into, cells)
            diagonal = np.bincount(into, noise.diagonal, cells)
            spread += share**2 * (diagonal - np.square(known).sum(axis=1))
        reports = sum(self._reports[number] for _, number in parts)
        return Estimate(table, np.maximum(spread, 0.0), reports)

    def covariance(self, attributes: Attributes) -> Floats:
        """Return the covariance of the cells of the average."""
        cells = self._check(attributes, MAX_COVARIANCE_CELLS)
        total = np.zeros((cells, cells))
        for share, number in self._parts(attributes):
            noise, into = self._read(number)[1], self._into(number, attributes)
            diagonal: Floats = np.bincount(into, noise.diagonal, cells).astype(np.float64)
            total += share**2 * dense(diagonal, collapse(noise.factors, into, cells))
        return total

    def _parts(self, attributes: Attributes) -> list[tuple[float, int]]:
        """Weight, sum 1, and number of every table with reports that holds the attributes."""
        require_at_most(self._k, attributes, self._domain, self._method)
        holding = set.intersection(*(set(self._holders[i]) for i in attributes))
        cells = self._domain.size(attributes)
        weights = {v: self._reports[v] * cells * self._precision[v] for v in sorted(holding)}
        total = sum(weights.values())
        return [(weight / total, number) for number, weight in weights.items()]

    def _into(self, number: int, attributes: Attributes) -> Indices:
        return consistency.projection(self._sets[number], attributes, self._domain.cardinalities)

    def _read(self, number: int) -> tuple[Floats, Covariance]:
        if number not in self._cache:
            mechanism, n = self._mechanisms[number], self._reports[number]
            table = likely = np.full(mechanism.cells, 1.0 / mechanism.cells)
            if self._counts is not None:
                table = mechanism.estimate(self._counts[number], n)
                positive = np.maximum(table, 0.0)
                likely = positive / positive.sum() if positive.sum() > 0.0 else likely
            self._cache[number] = table, mechanism.covariance(n, likely)
        return self._cache[number]
