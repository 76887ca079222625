"""Make overlapping tables consistent: equal marginals over the attributes that they share.

All tables of a plan are in one flat vector, one after another. A *closed* set is a set of
attributes in two views or more that equals the intersection of all views that contain it. It
suffices to make the marginals over closed sets equal, small sets first. Sets of one size are one
vectorised step: their intersections have been treated before. One pass is the weighted
least-squares projection.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from math import prod

import numpy as np

from calmstream.estimators.arrays import Floats, Indices
from calmstream.estimators.domain import Attributes
from calmstream.estimators.numerics.simplex import project

MAX_ROUNDS = 300
TOLERANCE = 1e-10
"""Difference of shared frequencies at which `reconcile` stops, far below any standard error."""


@dataclass(frozen=True, slots=True, eq=False)
class _Level:
    """All pairs of a view and a shared set, for shared sets of one size.

    A *slot* is one cell of the marginal of one view over a shared set. A *pool* is one cell of a
    shared set; its slots, one per view, should be equal.
    """

    cell: Indices  # (cells of all pairs,): index in the flat vector
    slot: Indices  # (cells of all pairs,): where the cell contributes
    pool: Indices  # (slots,)
    view: Indices  # (slots,)
    summed: Indices  # (slots,): number of cells that are summed


@dataclass(frozen=True, slots=True, eq=False)
class ConsistencyStructure:
    """The part of a family of views that does not depend on data; built by `structure`."""

    views: tuple[Attributes, ...]
    cardinalities: tuple[int, ...]
    offsets: Indices  # (views + 1,): start of each table in the flat vector, and its length
    levels: tuple[_Level, ...]  # by size of the shared sets, ascending, without the empty set
    rows: tuple[Indices, ...]  # (views, cells): the cells of all tables with so many

    def table(self, flat: Floats, view: int) -> Floats:
        return flat[self.offsets[view] : self.offsets[view + 1]]


@lru_cache(maxsize=32)
def structure(
    views: tuple[Attributes, ...], cardinalities: tuple[int, ...]
) -> ConsistencyStructure:
    """Return the index arrays of a family of views: O(cells · shared subsets of a view)."""
    sizes = np.array([prod(cardinalities[i] for i in view) for view in views], np.int64)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    closed = _closed_sets(views)
    levels = []
    for size in sorted({len(s) for s in closed}):
        sets = sorted(s for s in closed if len(s) == size)
        levels.append(_level(sets, [closed[s] for s in sets], views, cardinalities, offsets))
    rows = tuple(
        offsets[:-1][sizes == width][:, None] + np.arange(width) for width in np.unique(sizes)
    )
    return ConsistencyStructure(views, cardinalities, offsets, tuple(levels), rows)


def _closed_sets(views: tuple[Attributes, ...]) -> dict[Attributes, list[int]]:
    """Return every closed attribute set with the views that contain it."""
    holders: dict[Attributes, list[int]] = {}
    for number, view in enumerate(views):
        for size in range(1, len(view) + 1):
            for subset in combinations(view, size):
                holders.setdefault(subset, []).append(number)
    members = [frozenset(view) for view in views]
    return {
        subset: numbers
        for subset, numbers in holders.items()
        if len(numbers) > 1
        and len(frozenset.intersection(*(members[v] for v in numbers))) == len(subset)
    }


def _level(
    sets: list[Attributes],
    holders: list[list[int]],
    views: tuple[Attributes, ...],
    cardinalities: tuple[int, ...],
    offsets: Indices,
) -> _Level:
    """Return the pairs of views and shared sets, for sets of one size."""
    cell, slot, pool, view, summed = [], [], [], [], []
    slots = pools = 0
    for attributes, numbers in zip(sets, holders, strict=True):
        cells = prod(cardinalities[i] for i in attributes)
        for number in numbers:
            into = projection(views[number], attributes, cardinalities)
            cell.append(np.arange(offsets[number], offsets[number + 1]))
            slot.append(slots + into)
            pool.append(pools + np.arange(cells))
            view.append(np.full(cells, number))
            summed.append(np.full(cells, len(into) // cells))
            slots += cells
        pools += cells
    return _Level(*(np.concatenate(parts) for parts in (cell, slot, pool, view, summed)))


@lru_cache(maxsize=4096)
def projection(view: Attributes, attributes: Attributes, cardinalities: tuple[int, ...]) -> Indices:
    """Return each cell's index in the table over a subset of attributes: shape (cells,)."""
    grid = np.indices([cardinalities[i] for i in view]).reshape(len(view), -1)
    into = np.zeros(grid.shape[1], np.int64)
    for i in attributes:
        into = into * cardinalities[i] + grid[view.index(i)]
    into.flags.writeable = False
    return into


def harmonise(
    shared: ConsistencyStructure, flat: Floats, precision: Floats
) -> tuple[Floats, float]:
    """Make tables consistent, with totals 1, by one pass of weighted least squares.

    ``flat`` are all tables, (total cells,); ``precision`` is the inverse variance of one cell of
    each view, (views,). A cell of a marginal weighs this over the number of cells in the sum.
    Returns the consistent tables nearest in ``sum_v precision_v |change_v|²``, and the largest
    difference before: of a total from 1, or of a marginal from the average.
    """
    flat = flat.copy()
    gap = 0.0
    for rows in shared.rows:
        excess = flat[rows].sum(axis=1) - 1.0
        gap = max(gap, float(np.abs(excess).max()))
        flat[rows] -= excess[:, None] / rows.shape[1]
    for level in shared.levels:
        weight = precision[level.view] / level.summed
        found = np.bincount(level.slot, flat[level.cell])
        average = np.bincount(level.pool, weight * found) / np.bincount(level.pool, weight)
        change = average[level.pool] - found
        gap = max(gap, float(np.abs(change).max()))
        flat += np.bincount(level.cell, (change / level.summed)[level.slot], len(flat))
    return flat, gap


def reconcile(shared: ConsistencyStructure, flat: Floats, precision: Floats) -> Floats:
    """Return tables that agree, are non-negative and sum to 1, close to ``flat``; as `harmonise`.

    `harmonise` and `simplex.project` alternate until the largest difference is below ``TOLERANCE``,
    at most ``MAX_ROUNDS`` times. Then `harmonise` runs once more, and all tables are mixed with
    uniform ones, which are consistent, by the least weight that makes no cell negative.
    """
    if not len(flat):
        return flat
    for _ in range(MAX_ROUNDS):
        agreed, gap = harmonise(shared, flat, precision)
        if gap < TOLERANCE and agreed.min() >= 0.0:
            break
        flat = agreed
        for rows in shared.rows:
            flat[rows] = project(flat[rows])
    agreed, _ = harmonise(shared, flat, precision)
    return _lift(shared, agreed)


def _lift(shared: ConsistencyStructure, flat: Floats) -> Floats:
    """Mix all tables with uniform tables until no cell is negative."""
    uniform = np.repeat(1.0 / np.diff(shared.offsets), np.diff(shared.offsets))
    below = np.minimum(flat, 0.0)
    share = float((-below / (uniform - below)).max())
    return np.maximum((1.0 - share) * flat + share * uniform, 0.0)
