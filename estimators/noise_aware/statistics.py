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
from calmstream.estimators.noise_aware.layout import LEAST, Flags, Floats, Layout, Reals
from calmstream.estimators.numerics.hadamard import signs
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
    """Estimates and precisions (inverse variances) of all interactions; both 0 where there is none.

    The second-order estimates are symmetric, and 0 within an attribute.
    """

    means: Floats  # (columns,)
    mean_precision: Floats  # (columns,)
    products: Floats  # (columns, columns)
    product_precision: Floats  # (columns, columns)
    higher: Blocks  # Those of three and more attributes

    def valid_margins(self, layout: Layout) -> list[Floats]:
        """Return the attributes' tables from shrunk estimates, so that no cell is empty."""
        shrunk = self.means * self.mean_precision / (self.mean_precision + 3.0)
        out = np.zeros(layout.size)
        for i, r in enumerate(layout.cardinalities.tolist()):
            table = np.maximum(layout.margin(i, shrunk), 0.2 / r if r > 2 else 0.01)
            out[layout.own[i]] = table / table.sum() @ layout.codes(i)
        return [layout.margin(i, out) for i in range(layout.count)]


@dataclass(frozen=True, slots=True, eq=False)
class Signs:
    """Unbiased estimates of mean signs of levels, as linear functions of the mean features."""

    rows: Reals  # (signs, columns)
    values: Reals  # (signs,)
    precision: Reals  # (signs,)


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
    shape = 2, layout.size, layout.size
    first, second, higher = np.zeros(shape[:2]), np.zeros(shape), Blocks()
    for members, (total, known) in sums.items():
        where = [layout.own[i] for i in members]
        if len(members) == 1:
            first[0][where[0]], first[1][where[0]] = total / known, known
        elif len(members) == 2:
            i, j = where
            second[0][i, j], second[1][i, j] = total / known, known
            second[0][j, i], second[1][j, i] = (total / known).T, known
        else:
            higher[members] = total / known, known
    return Statistics(first[0], first[1], second[0], second[1], higher)


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


MOST_TRIPLES = 300_000
"""Maximum number of columns times pairs of columns; in wider domains triples are not read, and each
is in so few reports that it says little."""


class Triples:
    """Moments of three features: of the attribute with most labels, by pairs of the two others.

    Attributes:
        first, second: (pairs,): columns of each pair.
        values, variances, known: (columns, pairs): estimates, their variances, and which exist.
    """

    def __init__(self, layout: Layout, higher: Blocks) -> None:
        """``higher``: estimates, of which only those of three attributes are read."""
        order = {
            own: tuple(sorted(own, key=lambda i: (layout.widths[i], i)))
            for own in higher
            if len(own) == 3
        }
        pairs = sorted({(i, j) for i, j, _ in order.values()})
        sizes = [int(layout.widths[i] * layout.widths[j]) for i, j in pairs]
        if layout.size * sum(sizes) > MOST_TRIPLES:
            order, pairs, sizes = {}, [], []
        columns = np.arange(layout.size)
        grids = [np.meshgrid(*(columns[layout.own[i]] for i in p), indexing="ij") for p in pairs]
        self.first, self.second = (
            np.concatenate([columns[:0], *(grid[a].ravel() for grid in grids)]) for a in (0, 1)
        )
        ends = np.cumsum(sizes).tolist()
        places = {p: slice(e - n, e) for p, e, n in zip(pairs, ends, sizes, strict=True)}
        self.values = np.zeros((layout.size, len(self.first)), np.float32)
        precision = np.zeros(self.values.shape)
        for own, (i, j, most) in order.items():
            found, known = higher[own]
            turned = np.transpose(found, [own.index(a) for a in (most, i, j)])
            self.values[layout.own[most], places[i, j]] = turned.reshape(len(turned), -1)
            precision[layout.own[most], places[i, j]] = known
        self.known: Flags = precision > 0
        self.variances: Reals = (1.0 / np.where(self.known, precision, 1.0)).astype(np.float32)
        both = self.first == columns[:, None], self.second == columns[:, None]
        self._sum = np.hstack(both).astype(np.float32)

    def products(self, features: Reals) -> Reals:
        """Return the products of the pairs of features: (chains, pairs, states)."""
        return features[:, self.first] * features[:, self.second]

    def back(self, features: Reals, slope: Reals) -> Reals:
        """Return slopes by features from those by products: (chains, columns, states)."""
        both = [slope * features[:, self.second], slope * features[:, self.first]]
        return np.asarray(self._sum @ np.concatenate(both, axis=1))


class Targets:
    """Estimates and variances; `known` says which second moments have an estimate."""

    def __init__(self, layout: Layout, statistics: Statistics, signs: Signs | None = None) -> None:
        none = np.zeros((0, layout.size), np.float32)
        self.signs = signs or Signs(none, none[:, 0], none[:, 0])
        self.means = statistics.means.astype(np.float32)
        self.mean_precision = statistics.mean_precision.astype(np.float32)
        self.products = statistics.products.astype(np.float32)
        precision = np.minimum(statistics.product_precision, MOST_PRECISE)
        self.known: Flags = precision > 0
        variances = 1.0 / np.where(self.known, precision, 1.0)
        self.variances: Reals = variances.astype(np.float32)
        self.triples = Triples(layout, statistics.higher)
        tables = statistics.valid_margins(layout)
        found = np.concatenate([np.maximum(table, LEAST) for table in tables])
        # One column of a bit: the share of code 0.
        self.margins = found[::2] if layout.bits else found / (found @ layout.member)[layout.owner]

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


def signs_of(
    plan: CollectionPlan, tallies: Sequence[Tally], layout: Layout, margins: Sequence[Floats]
) -> Signs | None:
    """Return the estimates of mean signs, None without reports on any.

    ``margins`` are tables near the margins, at which variances are taken.
    """
    found = []
    for group, mechanism, tally in zip(plan.groups, plan.mechanisms, tallies, strict=True):
        for view, n, counts in zip(group.views, tally.n.tolist(), tally.counts, strict=True):
            if n > 0 and view.kind == "parity" and len(view.attributes) == 1:
                (i,), (mask,) = view.attributes, view.factors
                sign = signs(np.arange(margins[i].size) & mask)
                odd = float(margins[i][sign < 0.0].sum())
                both, difference = np.array([1.0 - odd, odd]), np.array([1.0, -1.0])
                noise = mechanism.table_covariance(n, both, (2,), [0])
                value = difference @ mechanism.estimate(counts, n) - sign.mean()
                row = np.zeros(layout.size)
                row[layout.own[i]] = sign / np.sqrt(sign.size)
                known = min(1.0 / (difference @ noise @ difference), MOST_PRECISE)
                found.append((i, row, value, known))
    found.sort(key=lambda one: one[0])
    rows, values, known = ([one[part] for one in found] for part in (1, 2, 3))
    return Signs(*(np.array(part, np.float32) for part in (rows, values, known))) if found else None
