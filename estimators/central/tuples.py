"""k-tuples of a table with missing values: which candidates each record has, and their counts.

The cells of one column set are ascending mixed-radix numbers of the values.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calmstream.estimators.central.discrete_gaussian import Integers
from calmstream.estimators.randomness import Randomness

Columns = tuple[int, ...]
Cells = Mapping[Columns, Integers]  # ascending; column sets without tuples are left out
MISSING = -1
_LOOKUP = 1 << 22  # column sets with at most so many cells use a table of all, others bisection
_LOOKUP_PER_RECORD = 8  # the same per record and candidate: filling the table takes time too


@dataclass(frozen=True, slots=True, eq=False)
class Records:
    """Coded raw records; ``codes`` has shape (n, d), int32, and -1 where the value is missing."""

    codes: NDArray[np.integer[Any]]
    cardinalities: tuple[int, ...]

    def __post_init__(self) -> None:
        # Whole columns are read, one at a time.
        object.__setattr__(self, "codes", np.asfortranarray(self.codes, np.int32))

    def cells(self, columns: Columns) -> Integers:
        """Return every record's cell over the columns, -1 if a value is missing: shape (n,)."""
        cell = np.zeros(len(self.codes), np.int64)
        missing = np.zeros(len(self.codes), np.bool_)
        for i in columns:
            missing |= self.codes[:, i] < 0
            cell *= self.cardinalities[i]
            cell += self.codes[:, i]
        cell[missing] = MISSING
        return cell

    def restrict(self, kept: Cells) -> Records:
        """Return records with only the values that are 1-tuples of ``kept``; others are missing."""
        codes = np.full_like(self.codes, MISSING)
        cardinalities = []
        for i, r in enumerate(self.cardinalities):
            values = kept.get((i,), np.empty(0, np.int64))
            table = np.full(r + 1, MISSING, np.int32)  # the last entry serves code -1
            table[values] = np.arange(len(values))
            codes[:, i] = table[self.codes[:, i]]
            cardinalities.append(len(values))
        return Records(codes, tuple(cardinalities))

    def place(self, columns: Columns, wanted: Integers) -> Integers:
        """Return the index of every record's tuple over ``columns`` among the cells, or -1."""
        cell = self.cells(columns)
        whole = prod(self.cardinalities[i] for i in columns)
        if whole <= min(_LOOKUP, _LOOKUP_PER_RECORD * (len(cell) + len(wanted))):
            table = np.full(whole + 1, MISSING, np.int64)
            table[wanted] = np.arange(len(wanted))
            return table[cell]
        return find(wanted, cell)

    def sizes(self, universe: Cells) -> Integers:
        """Return the number of candidates that each record has: shape (n,)."""
        held = np.zeros(len(self.codes), np.int64)
        for columns, cells in universe.items():
            held += self.place(columns, cells) >= 0
        return held

    def count(
        self, universe: Cells, held: Integers, limit: int, randomness: Randomness
    ) -> Iterator[tuple[Columns, Integers]]:
        """Yield every column set, and counts in the order of its cells, int64.

        A record with more than ``limit`` tuples keeps a uniformly random subset: each in turn with
        probability (number still allowed) / (number still to come). Privacy depends only on the
        size of the subset, so a slight bias by the remainder of random words is harmless.
        """
        over = held > limit
        left, quota = held.copy(), np.minimum(held, limit)
        for columns, cells in universe.items():
            place = self.place(columns, cells)
            rows = np.flatnonzero((place >= 0) & over)
            if len(rows):
                words = np.frombuffer(randomness.bytes(8 * len(rows)), "<u8")
                kept = words % left[rows].astype(np.uint64) < quota[rows].astype(np.uint64)
                left[rows] -= 1
                quota[rows] -= kept
                place[rows[~kept]] = MISSING
            yield columns, np.bincount(place[place >= 0], minlength=len(cells))


def find(ascending: Integers, cells: Integers) -> Integers:
    """Return the index of each cell, or -1."""
    index = np.minimum(np.searchsorted(ascending, cells), len(ascending) - 1)
    return np.where(ascending[index] == cells, index, MISSING)


def size(cells: Cells) -> int:
    return sum(len(own) for own in cells.values())
