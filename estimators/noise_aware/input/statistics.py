"""Unbiased estimates of every interaction, with known variances, from the tallies.

Each view's unbiased table is split into its interactions (`features`). A coefficient of a view of L
cells of variance v has variance L v, so the generalised-least-squares estimate of an interaction is
the average over all views that hold its attributes, weighted by 1 / (L v). See noise-aware.md,
section 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from estimators.domain import Attributes
from estimators.mechanisms.base import Mechanism
from estimators.noise_aware.arrays import Floats
from estimators.noise_aware.input.features import Features
from estimators.noise_aware.input.walsh import sets_up_to
from estimators.numerics.hadamard import transform
from estimators.plan.pilots import CollectionPlan
from estimators.tally import Tally

MOST_PRECISE = 1e10
"""Largest precision that models which draw use: single precision represents no moment better, and
from 1e12 on the curvatures of contradicting statistics cannot always be factored."""


@dataclass(frozen=True, slots=True, eq=False)
class Statistics:
    """The sufficient statistics of all later steps."""

    means: Floats  # (size,): first-order estimates, 0 where there is none
    mean_precision: Floats  # (size,): inverse variances, 0 where there is no estimate
    # (size, size), symmetric: second-order estimates; blocks of one attribute with itself are 0.
    products: Floats
    product_precision: Floats  # (size, size), inverse variances
    # Third and higher orders of binary attributes: (estimate, precision) by set.
    higher: dict[Attributes, tuple[float, float]]
    reports: NDArray[np.int64]  # (attributes,): reports of views that hold the attribute

    def of(self, sets: Sequence[Attributes]) -> tuple[Floats, Floats]:
        """Return estimates and precisions of sets of binary attributes: shape (sets,) both."""
        found = [self._look_up(members) for members in sets]
        estimates, precisions = np.array(found, np.float64).reshape(-1, 2).T
        return estimates, precisions

    def valid_means(self, features: Features) -> Floats:
        """Return first-order estimates shrunk to margins without empty cells: shape (size,)."""
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


class _Sums:
    def __init__(self, features: Features, orders: int) -> None:
        self.features, self.orders, size = features, orders, features.size
        self.more: dict[Attributes, list[float]] = {}
        self.one, self.one_weight = np.zeros(size), np.zeros(size)
        self.two, self.two_weight = np.zeros((size, size)), np.zeros((size, size))

    def add(self, attributes: Attributes, table: Floats, variance: float) -> None:
        """Add one view's unbiased table, whose cells have that variance."""
        weight = 1.0 / (table.size * variance)
        if table.size == 1 << len(attributes):
            self._add_binary(attributes, table, weight)
            return
        parts = self.features.interactions(attributes, table)
        slices, count = [self.features.slices[i] for i in attributes], len(attributes)
        for a in range(count):
            part = parts[tuple(slice(1, None) if x == a else 0 for x in range(count))]
            self.one[slices[a]] += weight * part
            self.one_weight[slices[a]] += weight
        for a, b in combinations(range(count), 2):
            part = parts[tuple(slice(1, None) if x in (a, b) else 0 for x in range(count))]
            for i, j, block in ((a, b, part), (b, a, part.T)):
                self.two[slices[i], slices[j]] += weight * block
                self.two_weight[slices[i], slices[j]] += weight

    def _add_binary(self, attributes: Attributes, table: Floats, weight: float) -> None:
        """Add the same by one transform, which gives all interactions of binary attributes."""
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


def collect(
    plan: CollectionPlan, tallies: Sequence[Tally], features: Features, orders: int = 2
) -> Statistics:
    """Pool the estimates of all views, of kind ``cell``, up to an order (above 2 of bits only).

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
    """Return the variance of one cell of a uniform table for one report: noise and sampling.

    Where the estimates always add up to 1, the noise of the other L - 1 directions is L / (L - 1)
    times the mean.
    """
    cells = mechanism.cells
    noise = float(np.mean(mechanism.variance(1)))
    return noise * (cells / (cells - 1) if mechanism.fixed_total else 1.0) + 1.0 / cells


def _ratio(total: Floats, weight: Floats) -> Floats:
    known = weight > 0
    return np.where(known, total / np.where(known, weight, 1.0), 0.0)
