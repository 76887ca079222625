"""From tallies to what the model is fitted to: interactions with known variances, and signs.

`collect` pools the unbiased estimates of all views that hold an interaction's attributes, by
inverse variance. `Targets` holds them as the sampler reads them. See noise-aware.md, section 2.
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

_Table = tuple[Attributes, Floats, int]
"""Attributes of a view, its estimated cells, and its number of reports."""


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
        means = np.zeros(layout.size)
        for i, r in enumerate(layout.cardinalities.tolist()):
            table = np.maximum(layout.margin(i, shrunk), 0.2 / r if r > 2 else 0.01)
            means[layout.own[i]] = table / table.sum() @ layout.codes(i)
        return [layout.margin(i, means) for i in range(layout.count)]


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
        by_shape: dict[tuple[int, ...], list[_Table]] = {}
        for view, reports, counts in zip(group.views, tally.n.tolist(), tally.counts, strict=True):
            sign = view.kind == "parity" and len(view.attributes) == 1  # of a bit it is the table
            if reports > 0 and (view.kind == "cell" or (sign and layout.bits)):
                shape = tuple(plan.domain.shape(view.attributes))
                table = mechanism.estimate(counts, reports).reshape(shape)
                by_shape.setdefault(shape, []).append((view.attributes, table, reports))
        by_one_report = 1.0 / (mechanism.cells * cell_variance(mechanism))
        for tables in by_shape.values():
            _add(sums, tables, by_one_report, layout, orders)
    return _statistics(sums, layout.size, layout.own)


def _add(
    sums: Blocks, tables: Sequence[_Table], by_one_report: float, layout: Layout, orders: int
) -> None:
    """Add tables of one shape: to estimates times precisions, and to precisions of coefficients."""
    first, cells = tables[0][0], np.array([table for _, table, _ in tables])
    axes = range(len(first))
    for members in sets_up_to(len(first), min(len(first), max(orders, 2))):
        others = tuple(a + 1 for a in axes if a not in members)
        estimates = layout.interactions(cells.sum(axis=others), tuple(first[a] for a in members))
        for (attributes, _, reports), estimate in zip(tables, estimates, strict=True):
            own = tuple(attributes[a] for a in members)
            total, precision = sums.get(own, (np.zeros(()), 0.0))
            added = by_one_report * reports
            sums[own] = total + added * estimate, precision + added


def _statistics(sums: Blocks, size: int, columns: Sequence[slice]) -> Statistics:
    """Divide the sums, and put those of one and of two attributes into arrays by columns."""
    vector, matrix = np.zeros(size), np.zeros((size, size))
    found = Statistics(vector, vector.copy(), matrix, matrix.copy(), {})
    for attributes, (total, precision) in sums.items():
        estimate = total / precision
        if len(attributes) == 1:
            a = columns[attributes[0]]
            found.means[a], found.mean_precision[a] = estimate, precision
        elif len(attributes) == 2:
            a, b = (columns[i] for i in attributes)
            found.products[a, b], found.products[b, a] = estimate, estimate.T
            found.product_precision[a, b] = found.product_precision[b, a] = precision
        else:
            found.higher[attributes] = estimate, precision
    return found


def cell_variance(mechanism: Mechanism) -> float:
    """Return the variance of one cell of a uniform table for one report: noise and sampling.

    If estimates of the L cells always add up to 1, the noise of the other L - 1 directions is
    L / (L - 1) times the mean.
    """
    cells = mechanism.cells
    noise = float(np.mean(mechanism.variance(1)))
    return noise * (cells / (cells - 1) if mechanism.fixed_total else 1.0) + 1.0 / cells


MOST_TRIPLES = 300_000
"""Maximum number of columns times pairs of columns; in wider domains triples are not read, and each
is in so few reports that it says little."""


class Triples:
    """Moments of three features: of the attribute with most labels, by pairs of the two others.

    ``first`` and ``second`` are the columns of each pair: (pairs,). ``values``, ``variances`` and
    ``known``, whether there is an estimate: (columns, pairs).
    """

    def __init__(self, layout: Layout, higher: Blocks) -> None:
        by_labels = {
            own: tuple(sorted(own, key=lambda i: (layout.widths[i], i)))
            for own in higher
            if len(own) == 3
        }
        pairs = sorted({(i, j) for i, j, _ in by_labels.values()})
        sizes = [int(layout.widths[i] * layout.widths[j]) for i, j in pairs]
        if layout.size * sum(sizes) > MOST_TRIPLES:
            by_labels, pairs, sizes = {}, [], []
        columns = np.arange(layout.size)
        grids = [np.meshgrid(*(columns[layout.own[i]] for i in p), indexing="ij") for p in pairs]
        self.first, self.second = (
            np.concatenate([columns[:0], *(grid[a].ravel() for grid in grids)]) for a in (0, 1)
        )
        ends = np.cumsum(sizes).tolist()
        places = {p: slice(e - n, e) for p, e, n in zip(pairs, ends, sizes, strict=True)}
        self.values = np.zeros((layout.size, len(self.first)), np.float32)
        precisions = np.zeros(self.values.shape)
        for own, (i, j, most) in by_labels.items():
            estimate, precision = higher[own]
            turned = np.transpose(estimate, [own.index(a) for a in (most, i, j)])
            at = layout.own[most], places[i, j]
            self.values[at] = turned.reshape(len(turned), -1)
            precisions[at] = precision
        self.known: Flags = precisions > 0
        self.variances: Reals = (1.0 / np.where(self.known, precisions, 1.0)).astype(np.float32)
        either = self.first == columns[:, None], self.second == columns[:, None]
        self._sum = np.hstack(either).astype(np.float32)

    def products(self, features: Reals) -> Reals:
        return features[:, self.first] * features[:, self.second]

    def back(self, features: Reals, slope: Reals) -> Reals:
        """Return slopes by features from those by products: (chains, columns, states)."""
        both = [slope * features[:, self.second], slope * features[:, self.first]]
        return np.asarray(self._sum @ np.concatenate(both, axis=1))


class Targets:
    """Estimates and variances; `known` says which second moments have an estimate."""

    def __init__(self, layout: Layout, statistics: Statistics, signs: Signs | None = None) -> None:
        self.layout, self.higher = layout, statistics.higher
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

    def dependence(self, pair: Attributes) -> tuple[Floats, Floats] | None:
        """Return the unbiased covariance of two attributes' features, and its covariance.

        The noise of means and of products counts as uncorrelated, and sampling as that of even
        tables, which is no less in all.
        """
        a, b = (self.layout.own[i] for i in pair)
        precisions = self.mean_precision[a].min(), self.mean_precision[b].min()
        if not self.known[a, b].all() or min(precisions) <= 0.0:
            return None
        mean_a, mean_b = (np.asarray(self.means[own], float) for own in (a, b))
        # Noise of one report is the same in all free directions.
        even_a, even_b = (
            np.eye(m.size) - (0.0 if self.layout.bits else 1.0 / m.size) for m in (mean_a, mean_b)
        )
        spread = np.kron(even_a, even_b) * float(self.variances[a, b].max())
        spread += np.kron(np.outer(mean_a, mean_a), even_b) / float(precisions[1])
        spread += np.kron(even_a, np.outer(mean_b, mean_b)) / float(precisions[0])
        found = self.products[a, b] - np.outer(mean_a, mean_b)
        return found.astype(np.float64).ravel(), spread.astype(np.float64)


def signs_of(
    plan: CollectionPlan, tallies: Sequence[Tally], layout: Layout, margins: Sequence[Floats]
) -> Signs | None:
    """Return the estimates of mean signs, None without any, with variances at near ``margins``."""
    found: list[tuple[int, Floats, float, float]] = []
    for group, mechanism, tally in zip(plan.groups, plan.mechanisms, tallies, strict=True):
        for view, reports, counts in zip(group.views, tally.n.tolist(), tally.counts, strict=True):
            if reports > 0 and view.kind == "parity" and len(view.attributes) == 1:
                (i,), (mask,) = view.attributes, view.factors
                sign = signs(np.arange(margins[i].size) & mask)
                odd = float(margins[i][sign < 0.0].sum())
                table, difference = np.array([1.0 - odd, odd]), np.array([1.0, -1.0])
                noise = mechanism.table_covariance(reports, table, (2,), [0])
                value = difference @ mechanism.estimate(counts, reports) - sign.mean()
                row = np.zeros(layout.size)
                row[layout.own[i]] = sign / np.sqrt(sign.size)
                precision = min(1.0 / (difference @ noise @ difference), MOST_PRECISE)
                found.append((i, row, value, precision))
    if not found:
        return None
    _, *parts = zip(*sorted(found, key=lambda one: one[0]), strict=True)
    return Signs(*(np.array(part, np.float32) for part in parts))
