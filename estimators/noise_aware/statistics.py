"""Unbiased estimates of every interaction, with known variances, from the tallies.

The estimate of an interaction comes from all views (sets of attributes that are reported together)
that contain its attributes, by inverse variance. See noise-aware.md, section 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from calmstream.estimators.domain import Attributes
from calmstream.estimators.mechanisms.base import Mechanism
from calmstream.estimators.noise_aware.layout import Flags, Floats, Layout, Reals
from calmstream.estimators.noise_aware.ordered import Signs
from calmstream.estimators.numerics.subsets import sets_up_to
from calmstream.estimators.plan.pilots import CollectionPlan
from calmstream.estimators.tally import Tally

MOST_PRECISE = 1e10
"""Largest precision (inverse variance) that the samplers use. Single-precision numbers represent no
moment better, and from 1e12 on the curvature of contradicting statistics may not be factorable."""


Blocks = dict[Attributes, tuple[Floats, float]]
"""By set of attributes an estimate, one axis of features for each attribute, and its precision."""


@dataclass(frozen=True, slots=True, eq=False)
class Statistics:
    """Estimates and precisions of all interactions, which all later steps use."""

    means: Floats  # (columns,): first-order estimates, 0 where there is none
    mean_precision: Floats  # (columns,): inverse variances, 0 where there is no estimate
    # (columns, columns), symmetric: second-order estimates; those of one attribute alone are 0.
    products: Floats
    product_precision: Floats  # (columns, columns): inverse variances, 0 where there is no estimate
    higher: Blocks  # Those of three and more attributes

    @classmethod
    def of(cls, layout: Layout, blocks: Blocks) -> Statistics:
        """Arrange estimates by columns."""
        size = layout.size
        one, two = (
            (np.zeros(size), np.zeros(size)),
            (np.zeros((size, size)), np.zeros((size, size))),
        )
        higher = {}
        for members, (block, precision) in blocks.items():
            where = [layout.own[i] for i in members]
            if len(members) == 1:
                one[0][where[0]], one[1][where[0]] = block, precision
            elif len(members) == 2:
                for (i, j), value in ((where, block), (where[::-1], block.T)):
                    two[0][i, j], two[1][i, j] = value, precision
            else:
                higher[members] = (block, precision)
        return cls(*one, *two, higher)

    def valid_means(self, layout: Layout) -> Floats:
        """Return first-order estimates, shrunk so that no margin has an empty cell: (columns,)."""
        shrunk = self.means * self.mean_precision / (self.mean_precision + 3.0)
        out = np.zeros(layout.size)
        for i, r in enumerate(layout.cardinalities.tolist()):
            table = np.maximum(layout.margin(i, shrunk), 0.2 / r if r > 2 else 0.01)
            out[layout.own[i]] = table / table.sum() @ layout.codes(i)
        return out


def collect(
    plan: CollectionPlan, tallies: Sequence[Tally], layout: Layout, orders: int = 2
) -> Statistics:
    """Pool the estimates of all tables, up to an order; there is one tally a group of the plan.

    Noise counts as the same in all directions of a table. Cost: O(views · cells · 2^attributes of a
    view).
    """
    sums: Blocks = {}
    for group, mechanism, tally in zip(plan.groups, plan.mechanisms, tallies, strict=True):
        alike: dict[tuple[int, ...], list[tuple[Attributes, Floats, int]]] = {}
        for view, n, counts in zip(group.views, tally.n.tolist(), tally.counts, strict=True):
            if n > 0 and view.kind == "cell":
                shape = plan.domain.shape(view.attributes)
                found = view.attributes, mechanism.estimate(counts, n).reshape(shape), n
                alike.setdefault(tuple(shape), []).append(found)
        one = 1.0 / (mechanism.cells * cell_variance(mechanism))
        for own in alike.values():
            _add(sums, own, one, layout, orders)
    return Statistics.of(
        layout, {key: (sum_ / known, known) for key, (sum_, known) in sums.items()}
    )


def _add(
    sums: Blocks,
    views: Sequence[tuple[Attributes, Floats, int]],
    one: float,
    layout: Layout,
    orders: int,
) -> None:
    """Add views of one shape, whose reports have the precision ``one`` each, to weighted sums."""
    first, tables = views[0][0], np.array([table for _, table, _ in views])
    axes = range(len(first))
    for members in sets_up_to(len(first), min(len(first), max(orders, 2))).members:
        others = tuple(a + 1 for a in axes if a not in members)
        values = layout.interactions(tables.sum(axis=others), tuple(first[a] for a in members))
        for (attributes, _, reports), value in zip(views, values, strict=True):
            own = tuple(attributes[a] for a in members)
            total, known = sums.get(own, (np.zeros(()), 0.0))
            sums[own] = (total + one * reports * value, known + one * reports)


def cell_variance(mechanism: Mechanism) -> float:
    """Return the variance of one cell of a uniform table for one report: noise and sampling.

    If the estimates of the L cells always add up to 1, there is no noise in that direction, and the
    noise in each of the other L - 1 directions is L / (L - 1) times the mean.
    """
    cells = mechanism.cells
    noise = float(np.mean(mechanism.variance(1)))
    return noise * (cells / (cells - 1) if mechanism.fixed_total else 1.0) + 1.0 / cells


LEAST_SHARE = 1e-3
"""Least probability of a label in the margins to start from: its logarithm is finite."""


MOST_TRIPLES = 300_000
"""Maximum number of columns times pairs of columns; in wider domains triples are not read, and each
is in so few reports that it says little."""


class Triples:
    """Moments of three features: of the attribute with most labels, by pairs of the two others.

    Attributes:
        first, second: (pairs,): columns of each pair.
        values, variances, known: (columns, pairs): estimates, their variances, and which exist.
    """

    def __init__(self, layout: Layout, blocks: Blocks) -> None:
        """``blocks``: the estimates of three attributes each."""
        order = {own: self.order(layout, own) for own in blocks}
        pairs = sorted({(i, j) for i, j, _ in order.values()})
        columns = [np.arange(own.start, own.stop) for own in layout.own]
        grids = [np.meshgrid(columns[i], columns[j], indexing="ij") for i, j in pairs]
        self.first, self.second = (np.concatenate([g[a].ravel() for g in grids]) for a in (0, 1))
        ends = np.cumsum([grid[0].size for grid in grids]).tolist()
        places = {
            pair: slice(e - g[0].size, e) for pair, e, g in zip(pairs, ends, grids, strict=True)
        }
        self.values = np.zeros((layout.size, len(self.first)), np.float32)
        precision = np.zeros(self.values.shape)
        for own, (found, known) in blocks.items():
            i, j, most = order[own]
            turned = np.transpose(found, [own.index(a) for a in (most, i, j)])
            self.values[layout.own[most], places[i, j]] = turned.reshape(len(turned), -1)
            precision[layout.own[most], places[i, j]] = known
        self.known: Flags = precision > 0
        self.variances: Reals = (1.0 / np.where(self.known, precision, 1.0)).astype(np.float32)
        every = np.arange(layout.size)[:, None]
        self._sum = np.hstack([self.first == every, self.second == every]).astype(np.float32)

    @staticmethod
    def order(layout: Layout, own: Attributes) -> tuple[int, ...]:
        """Return three attributes, that with most labels last."""
        return tuple(sorted(own, key=lambda i: (layout.widths[i], i)))

    def products(self, features: Reals) -> Reals:
        """Return the products of the pairs of features: (chains, pairs, states)."""
        return features[:, self.first] * features[:, self.second]

    def back(self, features: Reals, slope: Reals) -> Reals:
        """Return slopes by features from those by products: (chains, columns, states)."""
        both = [slope * features[:, self.second], slope * features[:, self.first]]
        return np.asarray(self._sum @ np.concatenate(both, axis=1))


class Targets:
    """Estimates and variances; `known` says which second moments have an estimate."""

    def __init__(
        self,
        layout: Layout,
        statistics: Statistics,
        signs: dict[int, Signs],
    ) -> None:
        self.means = statistics.means.astype(np.float32)
        self.mean_precision = statistics.mean_precision.astype(np.float32)
        self.products = statistics.products.astype(np.float32)
        precision = np.minimum(statistics.product_precision, MOST_PRECISE)
        self.known: Flags = precision > 0
        variances = 1.0 / np.where(self.known, precision, 1.0)
        self.variances: Reals = variances.astype(np.float32)
        self.triples = _triples(layout, statistics)
        self.sign_rows, self.sign_values, self.sign_precision = _signs(layout, signs)
        valid = statistics.valid_means(layout)
        tables = [layout.margin(i, valid) for i in range(layout.count)]
        found = np.concatenate([np.maximum(table, LEAST_SHARE) for table in tables])
        if layout.bits:  # one column: the share of code 0
            found = found[::2]
        self.margins = found / (found @ layout.member)[layout.owner] if not layout.bits else found

    def dependence(self, layout: Layout, pair: Attributes) -> tuple[Floats, Floats] | None:
        """Return the unbiased covariance of two attributes' features, and its covariance.

        The noise of means and of products counts as uncorrelated, and sampling as that of even
        tables, which is no less in all.
        """
        a, b = (layout.own[i] for i in pair)
        sure = self.mean_precision[a].min(), self.mean_precision[b].min()
        if not self.known[a, b].all() or min(sure) <= 0.0:
            return None
        first, second = (np.asarray(self.means[own], float) for own in (a, b))
        own, other = (
            np.eye(m.size) - (0.0 if layout.bits else 1.0 / m.size) for m in (first, second)
        )
        spread = np.kron(own, other) * float(self.variances[a, b].max())
        spread += np.kron(np.outer(first, first), other) / float(sure[1])
        spread += np.kron(own, np.outer(second, second)) / float(sure[0])
        found = self.products[a, b] - np.outer(first, second)
        return found.astype(np.float64).ravel(), spread.astype(np.float64)


def _triples(layout: Layout, statistics: Statistics) -> Triples | None:
    third: Blocks = {own: found for own, found in statistics.higher.items() if len(own) == 3}
    pairs = {Triples.order(layout, own)[:2] for own in third}
    count = sum(int(layout.widths[i] * layout.widths[j]) for i, j in pairs)
    return Triples(layout, third) if third and layout.size * count <= MOST_TRIPLES else None


def _signs(layout: Layout, signs: dict[int, Signs]) -> tuple[Reals, Reals, Reals]:
    """Return mean signs of levels as linear functions of the mean features, with precisions."""
    rows, values, precision = [], [], []
    for i, found in signs.items():
        r = int(layout.cardinalities[i])
        for row, value, variance in zip(found.rows, found.values, found.variances, strict=True):
            full = np.zeros(layout.size)
            full[layout.own[i]] = row / np.sqrt(r)
            rows.append(full)
            values.append(value - row.mean())
            precision.append(min(1.0 / variance, MOST_PRECISE))
    wide = np.array(rows, np.float32).reshape(-1, layout.size)
    return wide, np.array(values, np.float32), np.array(precision, np.float32)
