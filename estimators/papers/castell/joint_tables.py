"""Counters of mechanisms that perturb whole records: several tables in one row of integers.

A record can have too many values for a counter each, so only tables that queries need are counted.
Every table counts every report: a table is a sum of the cells of any larger one. An axis is an
attribute.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calmstream.common.errors import PlanError
from calmstream.estimators.arrays import Counts
from calmstream.estimators.mechanisms.base import Mechanism

MAX_RECORD_CELLS = 1 << 62  # limit of a record's values: their number fits a signed 64-bit integer
MAX_TABLE_CELLS = 1 << 26  # maximum of all tables together, checked before a plan's smaller limit


@dataclass(frozen=True)
class JointTables:
    """The tables that are counted, and the positions of their counters."""

    axes: tuple[int, ...]  # number of values of every attribute, each at least 2
    tables: tuple[tuple[int, ...], ...]  # ascending positions; all are different

    def __post_init__(self) -> None:
        if not self.tables or len(set(self.tables)) != len(self.tables):
            raise PlanError("tables: expected at least one, and none twice")
        for table in self.tables:
            if not table or list(table) != sorted(set(table)):
                raise PlanError(f"tables: expected ascending axes, got {list(table)}")
            if table[0] < 0 or table[-1] >= len(self.axes):
                raise PlanError(
                    f"tables: expected axes from 0 to {len(self.axes) - 1}, got {list(table)}"
                )
        if self.width > MAX_TABLE_CELLS:
            raise PlanError(
                f"the tables have {self.width:,} cells together; at most {MAX_TABLE_CELLS:,} are "
                "possible: request fewer or smaller ones"
            )

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        return tuple(prod(self.axes[i] for i in table) for table in self.tables)

    @property
    def width(self) -> int:
        return sum(self.sizes)

    def count(
        self, digits: Mapping[int, NDArray[Any]], view: NDArray[Any] | None, views: int
    ) -> Counts:
        """Count reports by the codes of attributes: (views, width); O(n · axes of all tables)."""
        parts = []
        for table, size in zip(self.tables, self.sizes, strict=True):
            cell = cell_of(digits, self.axes, table, view)
            parts.append(np.bincount(cell, minlength=views * size).reshape(views, size))
        return np.concatenate(parts, axis=1)

    def holder(self, attributes: Sequence[int]) -> tuple[int, ...] | None:
        """Return the smallest table that contains all of the attributes, or None."""
        sized = zip(self.sizes, self.tables, strict=True)
        holders = [(size, table) for size, table in sized if set(attributes) <= set(table)]
        return min(holders)[1] if holders else None

    def cube(self, counts: Counts, table: tuple[int, ...]) -> Counts:
        """Return the counts of one of the tables, with an axis for each attribute."""
        place = self.tables.index(table)
        start = sum(self.sizes[:place])
        own = counts[start : start + self.sizes[place]]
        return own.reshape([self.axes[i] for i in table])

    def read(self, counts: Counts, attributes: Sequence[int]) -> Counts:
        table = self.holder(attributes)
        if table is None:
            raise KeyError(tuple(attributes))
        dropped = tuple(j for j, i in enumerate(table) if i not in attributes)
        read: Counts = self.cube(counts, table).sum(axis=dropped)
        return read


class RecordMechanism(Mechanism):
    """A mechanism that perturbs whole records; ``axes`` has the values of each attribute."""

    axes: tuple[int, ...]

    @property
    @abstractmethod
    def layout(self) -> JointTables:
        """The tables that are counted."""

    def holds(self, axes: Sequence[int]) -> bool:
        return self.layout.holder(axes) is not None


def cell_of(
    digits: Mapping[int, NDArray[Any]] | Sequence[NDArray[Any]],
    axes: Sequence[int],
    table: Sequence[int],
    first: NDArray[Any] | None = None,
) -> NDArray[np.int64]:
    """Return every record's cell of a table, (n,), from the codes of attributes; last one fastest.

    ``first``: a number that stands before the codes, as that of the view.
    """
    cell = np.zeros(len(digits[table[0]]), np.int64)
    if first is not None:
        cell += first
    for axis in table:
        cell *= axes[axis]
        cell += digits[axis]
    return cell


def digits_of(values: NDArray[Any], axes: Sequence[int]) -> list[NDArray[np.int64]]:
    """Return each attribute's code of mixed-radix numbers; the last attribute changes fastest."""
    rest = np.asarray(values).astype(np.int64)
    digits = []
    for r in reversed(axes):
        rest, digit = np.divmod(rest, r)
        digits.append(digit)
    return digits[::-1]


def integer_rows(what: str, rows: object) -> tuple[tuple[int, ...], ...]:
    """Read a list of lists of non-negative integers from a document, as tuples."""
    if not isinstance(rows, list | tuple):
        raise PlanError(f"{what}: expected a list of lists of integers")
    return tuple(integer_row(what, row) for row in rows)


def integer_row(what: str, row: object) -> tuple[int, ...]:
    if (
        not isinstance(row, list | tuple)
        or not set(map(type, row)) <= {int}
        or min(row, default=0) < 0
    ):
        raise PlanError(f"{what}: expected a list of non-negative integers")
    return tuple(row)
