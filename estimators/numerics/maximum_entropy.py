"""The table of maximum entropy with given projections, by iterative proportional fitting."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from calmstream.estimators.arrays import Floats

MAX_ROUNDS = 300  # maximum number of rounds of scaling; it bounds the time
TOLERANCE = 1e-9
"""Difference from a projection at which the fitting stops, far below any standard error."""

MANY_CELLS = 1 << 12
"""Number of cells above which a table is summed and scaled along its axes; for smaller tables, a
list of the cells of each projection is faster."""


def maximum_entropy(
    shape: tuple[int, ...], projections: Sequence[tuple[tuple[int, ...], Floats]]
) -> Floats:
    """Return the distribution of largest entropy with the given projections.

    These are consistent distributions over ascending axes, row-major. The uniform table is scaled
    to each in turn until all are met up to ``TOLERANCE``, or for ``MAX_ROUNDS`` rounds: consistent
    projections may have no common table. Cost: O(rounds · projections · cells).
    """
    cells = prod(shape)
    order = sorted(range(len(shape)), key=shape.__getitem__) if cells > MANY_CELLS else None
    targets: list[_Indexed | _Strided] = [
        _Indexed(shape, axes, wanted) if order is None else _Strided(shape, order, axes, wanted)
        for axes, wanted in projections
    ]
    wanted = np.concatenate([t.wanted.ravel() for t in targets] or [np.zeros(0)])
    table = np.full(cells, 1.0 / cells)
    for _ in range(MAX_ROUNDS if len(targets) > 1 else len(targets)):
        found = np.concatenate([target.scale(table) for target in targets])
        if np.abs(found - wanted).max() < TOLERANCE:
            break
    if order is not None:
        table = table.reshape([shape[i] for i in order]).transpose(np.argsort(order)).ravel()
    total = float(table.sum())
    return table / total if total > 0.0 else np.full(cells, 1.0 / cells)


def _ratio(wanted: Floats, found: Floats) -> Floats:
    """Return the factors that scale one projection to another; a cell of 0 stays 0."""
    ratio: Floats = wanted / np.where(found > 0.0, found, 1.0)
    return ratio


class _Indexed:
    """A projection of a small table, by the list of the projection's cell of each cell."""

    __slots__ = ("into", "wanted")

    def __init__(self, shape: tuple[int, ...], axes: tuple[int, ...], wanted: Floats) -> None:
        own = np.arange(wanted.size, dtype=np.intp)
        laid_out = own.reshape([r if i in axes else 1 for i, r in enumerate(shape)])
        self.into = np.broadcast_to(laid_out, shape).ravel()
        self.wanted = wanted.ravel()

    def scale(self, table: Floats) -> Floats:
        """Scale the table to the projection, in place, and return its projection before."""
        found = np.bincount(self.into, table, self.wanted.size).astype(np.float64, copy=False)
        table *= _ratio(self.wanted, found)[self.into]
        return found


class _Strided:
    """A projection of a large table, by sums along axes.

    Adjacent axes that are all in the projection, or all not in it, are merged into one axis. The
    largest axis is last, because sums along long contiguous axes are fast.
    """

    __slots__ = ("runs", "summed", "wanted")

    def __init__(
        self, shape: tuple[int, ...], order: list[int], axes: tuple[int, ...], wanted: Floats
    ) -> None:
        runs: list[int] = []
        kept: list[bool] = []
        for i in order:
            if kept and kept[-1] == (i in axes):
                runs[-1] *= shape[i]
            else:
                runs.append(shape[i])
                kept.append(i in axes)
        self.runs = tuple(runs)
        self.summed = tuple(j for j, own in enumerate(kept) if not own)
        places = [axes.index(i) for i in order if i in axes]
        sizes = [r if own else 1 for r, own in zip(runs, kept, strict=True)]
        self.wanted = wanted.reshape([shape[i] for i in axes]).transpose(places).reshape(sizes)

    def scale(self, table: Floats) -> Floats:
        cube = found = table.reshape(self.runs)
        # One axis at a time, because a sum over several axes reads memory in small steps.
        for axis in self.summed:
            found = found.sum(axis=axis, keepdims=True)
        if found is cube:
            found = cube.copy()
        cube *= _ratio(self.wanted, found)
        return found.ravel()
