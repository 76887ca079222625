"""Candidates for k-tuples: those whose (k-1)-subtuples were all released.

They follow from the tuples S_{k-1} and noisy counts H_{k-1} of the previous level alone: they may
be public. If there would be too many, only the tuples with the largest noisy counts are extended.
No function here raises an error, because the budget of the release is spent already.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod

import numpy as np

from calmstream.estimators.central.discrete_gaussian import Integers
from calmstream.estimators.central.tuples import Cells, Columns, find, size

MAX_CANDIDATES = 1 << 24  # maximum number of candidates of one size; each is counted and gets noise
MAX_COLUMN_SETS = 1 << 16  # of one size; each needs a pass over all records
_MAX_CELLS = 1 << 62  # column sets with more are left out: 64-bit integers number the cells
_JOIN_ROWS = 1 << 20  # number of joined tuples that are in memory at once, about 8 MiB per array


@dataclass(frozen=True, slots=True, eq=False)
class Universe:
    """The candidates V_k; they extend only tuples with noisy counts ``above`` this, all if None."""

    cells: Cells
    parents: int
    above: int | None


def grow(
    previous: Cells,
    counts: Mapping[Columns, Integers],
    cardinalities: tuple[int, ...],
) -> Universe:
    """Return V_k from S_{k-1} and H_{k-1}, within the limits of candidates and column sets."""
    kept, above = previous, None
    if not _fits(previous, cardinalities):
        levels = np.unique(np.concatenate(list(counts.values())))
        # The smallest count that can serve as the limit; above the highest one there is no tuple.
        low, high = 0, len(levels) - 1
        while low < high:
            middle = (low + high) // 2
            if _fits(_above(previous, counts, int(levels[middle])), cardinalities):
                high = middle
            else:
                low = middle + 1
        above = int(levels[high])
        kept = _above(previous, counts, above)
    return Universe(candidates(kept, cardinalities), size(kept), above)


def _above(cells: Cells, counts: Mapping[Columns, Integers], least: int) -> Cells:
    kept = {key: own[counts[key] > least] for key, own in cells.items()}
    return {key: own for key, own in kept.items() if len(own)}


def candidates(previous: Cells, cardinalities: tuple[int, ...]) -> Cells:
    """Return all k-tuples whose (k-1)-subtuples are all in ``previous``."""
    found = {}
    for key in _column_sets(previous, cardinalities):
        joined = _joined(previous, key, cardinalities)
        parts = [_prune(part, key, previous, cardinalities) for part in joined]
        found[key] = np.concatenate(parts)
    return {key: cells for key, cells in found.items() if len(cells)}


def _fits(cells: Cells, cardinalities: tuple[int, ...]) -> bool:
    """Return whether the joins from which candidates are taken are within both limits."""
    total = 0
    for number, key in enumerate(_column_sets(cells, cardinalities), start=1):
        low, high = _matches(cells, key, cardinalities)
        total += int((high - low).sum())
        if total > MAX_CANDIDATES or number > MAX_COLUMN_SETS:
            return False
    return True


def _column_sets(cells: Cells, cardinalities: tuple[int, ...]) -> Iterator[Columns]:
    """Yield, in ascending order, the sets of k columns whose (k-1)-subsets all have tuples."""
    columns = sorted({i for key in cells for i in key})
    for head in sorted(cells):
        for last in columns:
            key = (*head, last)
            if (
                last > head[-1]
                and all(key[:i] + key[i + 1 :] in cells for i in range(len(head)))
                and prod(cardinalities[i] for i in key) < _MAX_CELLS
            ):
                yield key


def _matches(
    cells: Cells, key: Columns, cardinalities: tuple[int, ...]
) -> tuple[Integers, Integers]:
    """Find the tuples that can extend each tuple over ``key`` without its last column."""
    heads = cells[key[:-1]] // cardinalities[key[-2]]
    others = cells[key[:-2] + key[-1:]] // cardinalities[key[-1]]
    return np.searchsorted(others, heads), np.searchsorted(others, heads, side="right")


def _joined(cells: Cells, key: Columns, cardinalities: tuple[int, ...]) -> Iterator[Integers]:
    """Yield the k-tuples that `_matches` joins, ascending, in parts of about a million."""
    heads, lasts = cells[key[:-1]], cells[key[:-2] + key[-1:]] % cardinalities[key[-1]]
    low, high = _matches(cells, key, cardinalities)
    before = np.concatenate([[0], np.cumsum(high - low)])
    start = 0
    while start < len(heads):
        # A part has as many tuples as fit in _JOIN_ROWS results, and at least one.
        stop = int(np.searchsorted(before, before[start] + _JOIN_ROWS, side="right")) - 1
        stop = max(stop, start + 1)
        repeats = high[start:stop] - low[start:stop]
        within = np.arange(repeats.sum()) - np.repeat(before[start:stop] - before[start], repeats)
        chosen = lasts[np.repeat(low[start:stop], repeats) + within]
        yield np.repeat(heads[start:stop], repeats) * cardinalities[key[-1]] + chosen
        start = stop


def _prune(
    cells: Integers, key: Columns, previous: Cells, cardinalities: tuple[int, ...]
) -> Integers:
    """Return the cells whose other (k-1)-subtuples are in ``previous`` too."""
    for dropped in range(len(key) - 2):
        subset = key[:dropped] + key[dropped + 1 :]
        tail = prod(cardinalities[i] for i in key[dropped + 1 :])
        head = cells // (tail * cardinalities[key[dropped]])
        cells = cells[find(previous[subset], head * tail + cells % tail) >= 0]
    return cells
