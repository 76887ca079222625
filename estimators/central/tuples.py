"""k-tuples of a table with missing values: candidates, where records hit them, contribution limits.

A k-tuple is a set of k columns with a value for each. Tuples are kept column set by column set: the
cells of one set are mixed-radix numbers over that set's values, ascending. No loop runs over rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from math import prod
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from estimators.errors import InvalidInput

if TYPE_CHECKING:
    from estimators.randomness import Randomness

Integers = NDArray[np.int64]
Columns = tuple[int, ...]
Cells = Mapping[Columns, Integers]
"""For each column set the ascending cells of its tuples; sets without tuples are left out."""

MISSING = -1
MAX_CANDIDATES = 1 << 25
"""Tuples of one size that are counted and given noise."""

_LOOKUP = 1 << 22
"""Column sets with up to so many cells are looked up in a table, larger ones by bisection."""


@dataclass(frozen=True, slots=True, eq=False)
class Records:
    """Coded raw records.

    Attributes:
        codes: shape (n, d), int64; -1 where the value is missing.
        cardinalities: number of codes of each column.
    """

    codes: Integers
    cardinalities: tuple[int, ...]

    def __post_init__(self) -> None:
        # Whole columns are read, one at a time.
        object.__setattr__(self, "codes", np.asfortranarray(self.codes, np.int64))

    def cells(self, columns: Columns) -> Integers:
        """Cell of every record over the columns, -1 where any value is missing: shape (n,)."""
        cell = np.zeros(len(self.codes), np.int64)
        missing = np.zeros(len(self.codes), np.bool_)
        for i in columns:
            missing |= self.codes[:, i] < 0
            cell *= self.cardinalities[i]
            cell += self.codes[:, i]
        cell[missing] = MISSING
        return cell

    def restrict(self, kept: Cells) -> Records:
        """Recode columns to the values that ``kept`` has as 1-tuples; others go missing."""
        codes = np.full_like(self.codes, MISSING)
        cardinalities = []
        for i, r in enumerate(self.cardinalities):
            values = kept.get((i,), np.empty(0, np.int64))
            table = np.full(r + 1, MISSING, np.int64)  # the last entry serves code -1
            table[values] = np.arange(len(values))
            codes[:, i] = table[self.codes[:, i]]
            cardinalities.append(len(values))
        return Records(codes, tuple(cardinalities))


def candidates(previous: Cells, k: int, cardinalities: tuple[int, ...]) -> Cells:
    """V_k: all k-tuples whose (k-1)-subtuples all stand in ``previous``.

    Raises:
        InvalidInput: more than 2^25 of them.
    """
    columns = sorted({i for key in previous for i in key})
    found: dict[Columns, Integers] = {}
    total = 0
    for key in combinations(columns, k):
        if any(subset not in previous for subset in combinations(key, k - 1)):
            continue
        last = cardinalities[key[-1]]
        prefix = previous[key[:-1]]
        too_wide = prod(cardinalities[i] for i in key) >= 1 << 62
        if too_wide or total + len(prefix) * last > MAX_CANDIDATES:
            raise InvalidInput(
                f"more than {MAX_CANDIDATES:,} candidate {k}-tuples: use fewer columns, a smaller T"
            )
        cells = (prefix[:, None] * last + np.arange(last)).reshape(-1)
        cells = _prune(cells, key, previous, cardinalities)
        if len(cells):
            found[key] = cells
            total += len(cells)
    return found


def _prune(
    cells: Integers, key: Columns, previous: Cells, cardinalities: tuple[int, ...]
) -> Integers:
    """Those cells whose other (k-1)-subtuples stand in ``previous`` too."""
    for dropped in range(len(key) - 1):
        subset = key[:dropped] + key[dropped + 1 :]
        tail = prod(cardinalities[i] for i in key[dropped + 1 :])
        head = cells // (tail * cardinalities[key[dropped]])
        cells = cells[_contains(previous[subset], head * tail + cells % tail)]
    return cells


def _contains(ascending: Integers, cells: Integers) -> NDArray[np.bool_]:
    place = np.minimum(np.searchsorted(ascending, cells), len(ascending) - 1)
    found: NDArray[np.bool_] = ascending[place] == cells
    return found


def size(cells: Cells) -> int:
    """Number of tuples."""
    return sum(len(own) for own in cells.values())


class Locator:
    """Where the tuples of each record stand among the candidates."""

    def __init__(self, records: Records, universe: Cells) -> None:
        self._records = records
        self._universe = universe

    def place(self, columns: Columns) -> Integers:
        """Index of every record's tuple over ``columns`` among its cells, -1 where it has none."""
        wanted = self._universe[columns]
        cell = self._records.cells(columns)
        whole = prod(self._records.cardinalities[i] for i in columns)
        if whole <= _LOOKUP:
            table = np.full(whole + 1, MISSING, np.int64)
            table[wanted] = np.arange(len(wanted))
            return table[cell]
        index = np.minimum(np.searchsorted(wanted, cell), len(wanted) - 1)
        return np.where(wanted[index] == cell, index, MISSING)

    def sizes(self) -> Integers:
        """|W_u| of every record: shape (n,)."""
        held = np.zeros(len(self._records.codes), np.int64)
        for columns in self._universe:
            held += self.place(columns) >= 0
        return held

    def count(self, held: Integers, limit: int, randomness: Randomness) -> dict[Columns, Integers]:
        """Counts of every candidate when each record contributes ``limit`` of its tuples at most.

        A record with more keeps a uniformly random subset: its tuples are met one after another and
        each is kept with odds (still allowed) / (still to come). That the subset is uniform serves
        accuracy only; privacy needs no more than its size.

        Args:
            held: as :meth:`sizes` returns it.
            limit: contribution limit, at least 1.
            randomness: source of words.

        Returns:
            For every column set, counts in the order of its cells, int64.
        """
        over = held > limit
        left, quota = held.copy(), np.minimum(held, limit)
        counts = {}
        for columns, cells in self._universe.items():
            place = self.place(columns)
            rows = np.flatnonzero((place >= 0) & over)
            if len(rows):
                words = np.frombuffer(randomness.bytes(8 * len(rows)), "<u8")
                kept = words % left[rows].astype(np.uint64) < quota[rows].astype(np.uint64)
                left[rows] -= 1
                quota[rows] -= kept
                place[rows[~kept]] = MISSING
            counts[columns] = np.bincount(place[place >= 0], minlength=len(cells))
        return counts
