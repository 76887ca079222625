"""Unbiased estimates of every interaction, with known variances, from the tallies.

The estimate of an interaction comes from all views (sets of attributes that are reported together)
that contain its attributes, by generalised least squares. See noise-aware.md, section 2.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import sqrt

import numpy as np

from calmstream.estimators.domain import Attributes
from calmstream.estimators.mechanisms.base import Mechanism
from calmstream.estimators.noise_aware.arrays import Floats, Indices
from calmstream.estimators.noise_aware.input.correlated import (
    LeastSquares,
    Near,
    ViewEstimate,
    contrasts,
    fits,
)
from calmstream.estimators.noise_aware.input.features import Features
from calmstream.estimators.numerics.hadamard import transform
from calmstream.estimators.numerics.subsets import sets_up_to
from calmstream.estimators.plan.pilots import CollectionPlan
from calmstream.estimators.tally import Tally

MOST_PRECISE = 1e10
"""Largest precision (inverse variance) that the samplers use. Single-precision numbers represent no
moment better, and from 1e12 on the curvature of contradicting statistics may not be factorable."""


@dataclass(frozen=True, slots=True, eq=False)
class Statistics:
    """Estimates and precisions of all interactions, which all later steps use."""

    means: Floats  # (size,): first-order estimates, 0 where there is none
    mean_precision: Floats  # (size,): inverse variances, 0 where there is no estimate
    # (size, size), symmetric: second-order estimates; blocks of one attribute with itself are 0.
    products: Floats
    product_precision: Floats  # (size, size): inverse variances, 0 where there is no estimate
    # Third and higher orders of binary attributes: set to (estimate, precision).
    higher: dict[Attributes, tuple[float, float]]
    # Third order of domains with categories: set to its block of estimates, which has one axis for
    # each attribute and the features of the attribute along it, and their precision.
    blocks: dict[Attributes, tuple[Floats, float]] = field(default_factory=dict)

    def of(self, sets: Sequence[Attributes]) -> tuple[Floats, Floats]:
        """Return estimates and precisions of sets of binary attributes: shape (sets,) both."""
        found = [self._look_up(members) for members in sets]
        estimates, precisions = np.array(found, np.float64).reshape(-1, 2).T
        return estimates, precisions

    def valid_means(self, features: Features) -> Floats:
        """Return first-order estimates, shrunk so that no margin has an empty cell: (size,)."""
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
    """Sums of estimates times weights, and of weights, over views; orders 1, 2 and above."""

    def __init__(self, features: Features, orders: int) -> None:
        self.features, self.orders, size = features, orders, features.size
        self.more: dict[Attributes, tuple[Floats, float]] = {}
        self.higher: dict[Attributes, tuple[float, float]] = {}  # the same of binary domains
        self.one, self.one_weight = np.zeros(size), np.zeros(size)
        self.two, self.two_weight = np.zeros((size, size)), np.zeros((size, size))

    def add(self, attributes: Attributes, table: Floats, variance: float) -> None:
        """Add one view's unbiased table, whose cells have that variance."""
        weight = 1.0 / (table.size * variance)
        slices = [self.features.slices[i] for i in attributes]
        for members, part in self._interactions(attributes, table):
            value, where = weight * part, [slices[a] for a in members]
            if len(members) == 1:
                self.one[where[0]] += value
                self.one_weight[where[0]] += weight
            elif len(members) == 2:
                for (i, j), block in ((where, value), (where[::-1], value.T)):
                    self.two[i, j] += block
                    self.two_weight[i, j] += weight
            else:
                own = tuple(attributes[a] for a in members)
                total, known = self.more.get(own, (np.zeros(()), 0.0))
                value = np.reshape(value, [self.features.widths[i] for i in own])
                self.more[own] = (total + value, known + weight)

    def add_bits(self, attributes: Indices, tables: Floats, variances: Floats) -> None:
        """Add views of as many binary attributes each, in a domain without others.

        Shapes (views, attributes), (views, cells) and (views,). The sums are those of `add`.
        """
        count = attributes.shape[1]
        sets = sets_up_to(count, min(count, max(2, self.orders)))
        weights = 1.0 / (tables.shape[1] * variances)
        values = weights[:, None] * transform(tables)[:, sets.index]
        for order in range(1, int(sets.order[-1]) + 1):
            columns = np.nonzero(sets.order == order)[0]
            # Views by sets, one view after another as in `add`: a sum's order decides its last bit.
            own = attributes[:, [sets.members[c] for c in columns]].reshape(-1, order)
            value, weight = values[:, columns].ravel(), np.repeat(weights, columns.size)
            if order == 1:
                np.add.at(self.one, own[:, 0], value)
                np.add.at(self.one_weight, own[:, 0], weight)
            elif order == 2:
                for i, j in (own.T, own.T[::-1]):
                    np.add.at(self.two, (i, j), value)
                    np.add.at(self.two_weight, (i, j), weight)
            else:
                self._add_higher(own, value, weight)

    def _add_higher(self, members: Indices, values: Floats, weights: Floats) -> None:
        for key, value, weight in zip(
            map(tuple, members.tolist()), values.tolist(), weights.tolist(), strict=True
        ):
            total, known = self.higher.get(key, (0.0, 0.0))
            self.higher[key] = (total + value, known + weight)

    def _interactions(
        self, attributes: Attributes, table: Floats
    ) -> Iterator[tuple[Attributes, Floats]]:
        """Yield sets of positions in ``attributes`` with their interactions, up to `orders`."""
        count = len(attributes)
        if table.size == 1 << count:  # one transform gives all interactions of binary attributes
            sets = sets_up_to(count, min(count, max(2, self.orders)))
            yield from zip(sets.members, transform(table)[sets.index], strict=True)
            return
        parts = self.features.interactions(attributes, table)
        for members in sets_up_to(count, min(count, self.orders)).members:
            yield members, parts[tuple(slice(1, None) if a in members else 0 for a in range(count))]


def collect(
    plan: CollectionPlan, tallies: Sequence[Tally], features: Features, orders: int = 2
) -> Statistics:
    """Pool the estimates of all tables, up to an order; above 3 of binary domains only.

    There is one tally a group of the plan. Where views are not too large, the covariances of their
    tables are taken into account (`correlated`). Cost: O(views · cells · 2^attributes of a view),
    and the cube of the number of coefficients that several views hold.
    """
    groups = [
        [
            ViewEstimate(view.attributes, mechanism.estimate(counts, n), mechanism, n)
            for view, n, counts in zip(group.views, tally.n.tolist(), tally.counts, strict=True)
            if n > 0 and view.kind == "cell"
        ]
        for group, mechanism, tally in zip(plan.groups, plan.mechanisms, tallies, strict=True)
    ]
    first = _separately(groups, features, orders)
    views = [view for group in groups for view in group]
    if not views or not fits(views, features, orders):
        return first
    near = Near(features, first.valid_means(features), first.products, first.product_precision)
    return _with(first, LeastSquares(views, near, orders), features)


def _separately(
    groups: Sequence[Sequence[ViewEstimate]], features: Features, orders: int
) -> Statistics:
    """Pool each interaction alone, as if noise were the same in all directions of a table.

    The views of a group have the same mechanism.
    """
    sums, binary = _Sums(features, orders), bool(features.binary.all())
    for group in filter(None, groups):
        variance = cell_variance(group[0].mechanism)
        if binary:
            sums.add_bits(
                np.array([view.attributes for view in group]),
                np.array([view.table for view in group]),
                variance / np.array([view.reports for view in group]),
            )
            continue
        for view in group:
            sums.add(view.attributes, view.table, variance / view.reports)
    higher = {key: (total / weight, weight) for key, (total, weight) in sums.higher.items()}
    blocks = {key: (total / weight, weight) for key, (total, weight) in sums.more.items()}
    return Statistics(
        _ratio(sums.one, sums.one_weight),
        sums.one_weight,
        _ratio(sums.two, sums.two_weight),
        sums.two_weight,
        higher,
        blocks,
    )


def _with(first: Statistics, pooled: LeastSquares, features: Features) -> Statistics:
    """Return the statistics with pooled values and precisions in place of the first ones."""
    means, known = first.means.copy(), first.mean_precision.copy()
    products, products_known = first.products.copy(), first.product_precision.copy()
    higher, blocks = dict(first.higher), dict(first.blocks)
    for own, values in pooled.values.items():
        block, precision = values, 1.0 / pooled.variances[own]
        for axis, i in enumerate(own):
            if features.cardinalities[i] > 2:
                side = contrasts(features.cardinalities[i])
                block = np.moveaxis(np.tensordot(block, side, (axis, 1)), -1, axis)
        where = [features.slices[i] for i in own]
        if len(own) == 1:
            means[where[0]], known[where[0]] = block, precision
        elif len(own) == 2:
            a, b = where
            products[a, b], products[b, a] = block, block.T
            products_known[a, b] = products_known[b, a] = precision
        elif own in higher:
            higher[own] = (block.item(), precision)
        else:
            blocks[own] = (block, precision)
    return Statistics(means, known, products, products_known, higher, blocks)


def cell_variance(mechanism: Mechanism) -> float:
    """Return the variance of one cell of a uniform table for one report: noise and sampling.

    If the estimates of the L cells always add up to 1, there is no noise in that direction, and the
    noise in each of the other L - 1 directions is L / (L - 1) times the mean.
    """
    cells = mechanism.cells
    noise = float(np.mean(mechanism.variance(1)))
    return noise * (cells / (cells - 1) if mechanism.fixed_total else 1.0) + 1.0 / cells


def _ratio(total: Floats, weight: Floats) -> Floats:
    known = weight > 0
    return np.where(known, total / np.where(known, weight, 1.0), 0.0)
