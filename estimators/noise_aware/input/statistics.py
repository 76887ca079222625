"""What the tallies say about every interaction: unbiased estimates of known variance.

Each view's unbiased table is split into its interactions (`features`). For a pure oracle over L
cells whose estimated cells have variance v, every interaction coefficient has variance L v, and
those of different attribute sets are uncorrelated but for the small part that depends on the data.
So the generalised-least-squares estimate of an interaction is the average over all views that hold
its attributes, weighted by 1 / (L v).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations
from math import sqrt
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from estimators.noise_aware.input.walsh import sets_up_to
from estimators.numerics.hadamard import transform

if TYPE_CHECKING:
    from collections.abc import Sequence

    from estimators.domain import Attributes
    from estimators.mechanisms.base import Mechanism
    from estimators.noise_aware.input.earlier import Asked
    from estimators.noise_aware.input.features import Features
    from estimators.tally import Tally

Floats = NDArray[np.float64]

MOST_PRECISE = 1e10
"""A statistic is not taken to be known better than this by models that draw: single precision knows
no moment so well, and from 1e12 on curvatures of contradicting statistics cannot always be
factored."""


@dataclass(frozen=True, slots=True, eq=False)
class Statistics:
    """Sufficient for everything after it.

    Attributes:
        means: shape (size,): first-order estimates, 0 where nothing is known.
        mean_precision: shape (size,): inverse variances, 0 where nothing is known.
        products: shape (size, size), symmetric: second-order estimates; blocks of one attribute
            with itself are 0.
        product_precision: shape (size, size), inverse variances.
        higher: third and higher orders of binary attributes: (estimate, precision) by set.
        reports: shape (attributes,): reports of views that hold the attribute.
    """

    means: Floats
    mean_precision: Floats
    products: Floats
    product_precision: Floats
    higher: dict[Attributes, tuple[float, float]]
    reports: NDArray[np.int64]

    def of(self, sets: Sequence[Attributes]) -> tuple[Floats, Floats]:
        """Estimates and precisions of interactions of binary attributes: shape (sets,) both."""
        looked = [self._look_up(members) for members in sets]
        estimates, precisions = np.array(looked, np.float64).reshape(-1, 2).T
        return estimates, precisions

    def valid_means(self, features: Features) -> Floats:
        """First-order estimates, shrunk and made margins without empty cells: shape (size,)."""
        shrunk = self.means * self.mean_precision / (self.mean_precision + 3.0)
        out = np.zeros(features.size)
        for i, r in enumerate(features.cardinalities):
            own = features.slices[i]
            if r == 2:
                out[own] = np.clip(shrunk[own], -0.98, 0.98)
            else:
                table = np.maximum(features.margin(i, shrunk), 0.2 / r)
                out[own] = sqrt(r) * (table / table.sum() - 1.0 / r)
        return out

    def _look_up(self, members: Attributes) -> tuple[float, float]:
        if len(members) == 1:
            return float(self.means[members]), float(self.mean_precision[members])
        if len(members) == 2:
            return float(self.products[members]), float(self.product_precision[members])
        return self.higher.get(members, (0.0, 0.0))


@dataclass(slots=True, eq=False)
class _Sums:
    features: Features
    orders: int
    one: Floats = field(init=False)
    one_weight: Floats = field(init=False)
    two: Floats = field(init=False)
    two_weight: Floats = field(init=False)
    more: dict[Attributes, list[float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        size = self.features.size
        self.one, self.one_weight = np.zeros(size), np.zeros(size)
        self.two, self.two_weight = np.zeros((size, size)), np.zeros((size, size))

    def add(self, attributes: Attributes, table: Floats, variance: float) -> None:
        """One view's unbiased table, whose cells have that variance."""
        weight = 1.0 / (table.size * variance)
        if table.size == 1 << len(attributes):
            self._add_binary(attributes, table, weight)
            return
        parts = self.features.interactions(attributes, table)
        count = len(attributes)
        for order in range(1, min(count, 2) + 1):
            for members in combinations(range(count), order):
                index = tuple(slice(1, None) if a in members else 0 for a in range(count))
                self._add(tuple(attributes[a] for a in members), parts[index], weight)

    def _add_binary(self, attributes: Attributes, table: Floats, weight: float) -> None:
        """The same by one transform, which for binary attributes gives all interactions."""
        sets = sets_up_to(len(attributes), min(len(attributes), max(2, self.orders)))
        values = (weight * transform(table)[sets.index]).tolist()
        place = [self.features.slices[i].start for i in attributes]
        for members, value in zip(sets.members, values, strict=True):
            where = [place[a] for a in members]
            if len(members) == 1:
                self.one[where[0]] += value
                self.one_weight[where[0]] += weight
            elif len(members) == 2:
                for i, j in (where, where[::-1]):
                    self.two[i, j] += value
                    self.two_weight[i, j] += weight
            else:
                total = self.more.setdefault(tuple(attributes[a] for a in members), [0.0, 0.0])
                total[0] += value
                total[1] += weight

    def _add(self, members: Attributes, part: Floats, weight: float) -> None:
        where = [self.features.slices[i] for i in members]
        if len(members) == 1:
            self.one[where[0]] += weight * part
            self.one_weight[where[0]] += weight
        else:
            i, j = where
            self.two[i, j] += weight * part
            self.two[j, i] += weight * part.T
            self.two_weight[i, j] += weight
            self.two_weight[j, i] += weight


def collect(
    plan: Asked, tallies: Sequence[Tally], features: Features, orders: int = 2
) -> Statistics:
    """Pool everything that the tallies say.

    Args:
        plan: its views are of kind ``cell``.
        tallies: one per group.
        features: of the plan's domain.
        orders: highest order that is read; above 2 of binary attributes only.

    Cost: O(views · cells · 2^attributes of a view).
    """
    sums = _Sums(features, orders)
    reports = np.zeros(len(plan.domain), np.int64)
    for group, mechanism, tally in zip(plan.groups, plan.mechanisms, tallies, strict=True):
        variance = cell_variance(mechanism)
        for view, n, counts in zip(group.views, tally.n, tally.counts, strict=True):
            if n > 0:
                table = mechanism.estimate(counts, int(n))
                sums.add(view.attributes, table, variance / int(n))
                reports[list(view.attributes)] += n
    return Statistics(
        _ratio(sums.one, sums.one_weight),
        sums.one_weight,
        _ratio(sums.two, sums.two_weight),
        sums.two_weight,
        {key: (total / weight, weight) for key, (total, weight) in sums.more.items()},
        reports,
    )


def cell_variance(mechanism: Mechanism) -> float:
    """Variance of one cell for one report, mechanism and sampling, apart from the table's total.

    For an even table: the mean noise, and 1 / L of sampling a device. Where the estimates always
    add up to 1, the noise of the other L - 1 directions is L / (L - 1) times the mean.
    """
    cells = mechanism.cells
    noise = float(np.mean(mechanism.variance(1)))
    return noise * (cells / (cells - 1) if mechanism.fixed_total else 1.0) + 1.0 / cells


def _ratio(total: Floats, weight: Floats) -> Floats:
    known = weight > 0
    return np.where(known, total / np.where(known, weight, 1.0), 0.0)
