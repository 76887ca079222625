"""How precise the tables of a plan will be: half-widths of the 95 % intervals of their shares.

The errors are those against the true shares of the devices that report. A formula gives them for
any table: the covariance of the best combination of all views, shrunk as far as interactions of
usual strength allow. It is cautious. Where records are at hand, simulated collections correct it,
by one factor for each number of attributes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import ceil, prod, sqrt

import numpy as np

from calmstream.common.errors import InvalidInput
from calmstream.estimators import methods
from calmstream.estimators.arrays import Floats
from calmstream.estimators.changes.basis import contrasts, interactions, own_positions
from calmstream.estimators.changes.power import expected_fit, planned_views
from calmstream.estimators.domain import Attributes, Codes
from calmstream.estimators.marginal import Z95, sse
from calmstream.estimators.noise_aware.design import PriorScales
from calmstream.estimators.plan import Plan
from calmstream.evaluation.population import collect, draw, true_tables

Width = Callable[[float], float]  # a half-width by the number of reports
MAX_CELLS = 256  # largest table whose precision is computed: its covariance is formed
MAX_SIMULATED = 1_000_000  # most devices that are simulated
MAX_ATTRIBUTES = 16  # of a simulated collection; a fit of more takes too long

FREEDOM, REPEATS = 40, 8
"""Shares that are estimated in all simulated collections together, and the most collections: the
deviation of a factor is then about a tenth. Each takes about half a second."""

TABLES = 24  # most tables of one size over which errors are averaged; they are spread over all

_USERS = 1e12  # the most reports that are looked at for a wanted width
_EVEN = 0.01  # part of even shares, so that none is 0


@dataclass(frozen=True, slots=True, eq=False)
class _Table:
    shape: tuple[int, ...]
    shares: Floats  # shape (cells,): of the records, or even
    information: Floats  # of the coefficients by one report: shape (coefficients, coefficients)
    sampling: Floats  # covariance of the coefficients of one device: the same shape
    prior: Floats  # variances of the coefficients, one row for each scale of pairs

    def covariance(self, users: float) -> Floats:
        """Return the covariance of the cells with so many reports: shape (cells, cells)."""
        base = contrasts(self.shape) / prod(self.shape)
        information = self.information * users
        found = np.mean(
            [np.linalg.inv(information + np.diag(1.0 / prior)) for prior in self.prior], axis=0
        )
        values, vectors = np.linalg.eigh(found - self._known(found) / users)
        kept = (vectors * np.maximum(values, 0.0)) @ vectors.T
        return np.asarray(base @ kept @ base.T)

    def _known(self, covariance: Floats) -> Floats:
        """Return the part of the sampling that the reports do not have to find out."""
        trust = np.eye(len(covariance)) - covariance / np.mean(self.prior, axis=0)[:, None]
        return np.asarray(trust @ self.sampling @ trust.T)


class Precision:
    """The expected precision of the tables of a plan."""

    def __init__(self, plan: Plan, codes: Codes | None = None, sizes: Sequence[int] = ()) -> None:
        self.plan = plan
        self._codes = codes
        self._tables: dict[Attributes, _Table] = {}
        self._factors: dict[int, float] = {}
        if codes is not None and plan.domain.ordinary <= MAX_ATTRIBUTES:
            self._factors = self._simulated(codes, sizes)

    @property
    def simulated(self) -> bool:
        """Whether a simulated collection has corrected the formula."""
        return bool(self._factors)

    def of(self, plan: Plan) -> Precision:
        """Return the precision of a similar plan, corrected as that of this one."""
        other = Precision(plan)
        other._codes, other._factors = self._codes, self._factors
        return other

    def tables(self, size: int) -> list[Attributes]:
        """Return tables of a size, spread over all that are not too large."""
        domain = self.plan.domain
        fitting = [
            one
            for one in combinations(range(domain.ordinary), size)
            if domain.size(one) <= MAX_CELLS
        ]
        return fitting[:: max(1, -(-len(fitting) // TABLES))]

    def squared_error(self, target: Attributes, users: float | None = None) -> float:
        """Return the expected squared error of a table, summed over its cells."""
        covariance = self._table(target).covariance(users or self.plan.users)
        return float(np.trace(covariance)) * self._factors.get(len(target), 1.0) ** 2

    def half_width(self, targets: Sequence[Attributes], users: float | None = None) -> float:
        """Return the half-width of the interval of a share, the root mean square over cells."""
        cells = self.plan.domain.size
        errors = [self.squared_error(target, users) / cells(target) for target in targets]
        return min(1.0, Z95 * sqrt(float(np.mean(errors))))

    def within(
        self, about: Sequence[int], given: Attributes, users: float | None = None
    ) -> tuple[float, float]:
        """Return the half-width of a share within the smallest group, and the group's share.

        Groups of fewer than one in a thousand records do not count; means over ``about``.
        """
        found = []
        for one in about:
            target = tuple(sorted((*given, one)))
            table = self._table(target)
            covariance = table.covariance(users or self.plan.users)
            covariance = covariance * self._factors.get(len(target), 1.0) ** 2
            axes = [*(target.index(i) for i in given), target.index(one)]
            order = np.arange(prod(table.shape)).reshape(table.shape).transpose(axes)
            cells = order.reshape(-1, table.shape[axes[-1]])
            mass = table.shares[cells].sum(axis=1)
            group = min((i for i in range(len(mass)) if mass[i] >= 1e-3), key=lambda i: mass[i])
            own = cells[group]
            ratio = table.shares[own] / mass[group]
            step = (np.eye(len(own)) - ratio[:, None]) / mass[group]
            spread = np.trace(step @ covariance[np.ix_(own, own)] @ step.T) / len(own)
            found.append((float(spread), float(mass[group])))
        variance, share = np.mean(found, axis=0)
        return min(1.0, Z95 * sqrt(variance)), float(share)

    def _table(self, target: Attributes) -> _Table:
        if target not in self._tables:
            if self.plan.domain.size(target) > MAX_CELLS:
                names = ", ".join(self.plan.domain.names[i] for i in target)
                raise InvalidInput(
                    f"{names}: the table has {self.plan.domain.size(target):,} cells; precision is "
                    f"known for at most {MAX_CELLS}"
                )
            self._tables[target] = self._made(target)
        return self._tables[target]

    def _made(self, target: Attributes) -> _Table:
        domain, shape = self.plan.domain, self.plan.domain.shape(target)
        even = np.full(prod(shape), 1.0 / prod(shape))
        shares = even
        if self._codes is not None:
            shares = domain.histogram(self._codes, target) / len(self._codes)
        # The covariance is taken at shares of which none is 0.
        near = (1.0 - _EVEN) * shares + _EVEN * even
        views = planned_views(self.plan.ordinary, self.plan.ordinary.users)
        fit = expected_fit(views, domain, target, near)
        information = np.linalg.pinv(fit.covariance, hermitian=True) / self.plan.users
        functions = contrasts(shape)
        mean = functions.T @ shares
        sampling = (functions.T * shares) @ functions - np.outer(mean, mean)
        return _Table(shape, shares, information, sampling, _prior(shape))

    def _simulated(self, codes: Codes, sizes: Sequence[int]) -> dict[int, float]:
        """Return the ratio of simulated to computed half-widths, by the attributes of a table."""
        users = min(self.plan.users, MAX_SIMULATED)
        ordinary = self.plan.domain.attributes[: self.plan.domain.ordinary]
        free = sum(len(one.labels) - 1 for one in ordinary)
        repeats = range(min(REPEATS, ceil(FREEDOM / free)))
        asked = {size: self.tables(size) for size in sizes}
        errors = dict.fromkeys(sizes, 0.0)
        for repeat in repeats:
            drawn = draw(codes, users, np.random.default_rng((repeat, 1)))
            seed = np.random.SeedSequence((repeat, 2))
            try:
                tallies = collect(self.plan, drawn, seed, exact=True)
                model = methods.fit(self.plan, tallies, quick=True)
            except InvalidInput:  # too many possible reports to draw their counts
                return {}
            for size, tables in asked.items():
                truths = true_tables(self.plan.domain, drawn, tables)
                found = [model.marginal(one).table for one in tables]
                errors[size] += sum(map(sse, found, truths))
        expected = {
            size: sum(self.squared_error(one, users) for one in tables)
            for size, tables in asked.items()
        }
        return {
            size: sqrt(errors[size] / (len(repeats) * one)) for size, one in expected.items() if one
        }


def _prior(shape: tuple[int, ...]) -> Floats:
    """Return the variances of the coefficients of interactions of usual strength."""
    usual = PriorScales()
    rows = []
    for pair in usual.pairs:
        scales = (usual.scales[0], pair, *usual.scales[2:])
        row = np.empty(prod(shape) - 1)
        for axes in interactions(len(shape)):
            row[own_positions(shape, axes)] = scales[min(len(axes), len(scales)) - 1] ** 2
        rows.append(row)
    return np.array(rows)


def needed(width: Width, wanted: float) -> float | None:
    """Return the least number of reports with which a half-width is reached; None if none is."""
    return least_number(lambda users: width(users) <= wanted, 1.0, _USERS, 1.001)


def least_number(
    enough: Callable[[float], bool], low: float, high: float, within: float
) -> float | None:
    """Return the least number that is enough, ``within`` times; None if the highest is not."""
    if not enough(high):
        return None
    while high > within * low:
        middle = sqrt(low * high)
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
