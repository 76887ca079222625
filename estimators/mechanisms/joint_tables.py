"""Counters of mechanisms that perturb whole records: several tables in one row of integers.

A mechanism that perturbs every attribute of a record has as many joint outputs as the record has
values. Its counters are therefore only the tables over those attribute sets that queries need, one
after another. Every table counts every report, so a smaller table is exactly a projection of any
larger one that holds its axes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from estimators.errors import PlanError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from estimators.mechanisms.base import Counts

MAX_RECORD_CELLS = 1 << 62
"""Values of a record: its number must fit a signed 64-bit integer."""

MAX_TABLE_CELLS = 1 << 26
"""Cells of all tables of a mechanism; a plan's state limit is far below."""


@dataclass(frozen=True)
class JointTables:
    """Which tables over the axes of a record are counted.

    Attributes:
        axes: cardinality of every axis, each at least 2.
        tables: ascending axis numbers of each table; none twice.
    """

    axes: tuple[int, ...]
    tables: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        if not self.tables or len(set(self.tables)) != len(self.tables):
            raise PlanError("tables: expected at least one, and none twice")
        for table in self.tables:
            if not table or list(table) != sorted(set(table)):
                raise PlanError(f"tables: {list(table)} does not ascend")
            if table[0] < 0 or table[-1] >= len(self.axes):
                raise PlanError(f"tables: {list(table)} names an axis that is not there")
        if self.width > MAX_TABLE_CELLS:
            raise PlanError(
                f"the tables have {self.width:,} cells together; at most {MAX_TABLE_CELLS:,} fit: "
                "ask for fewer or smaller ones"
            )

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Cells of each table."""
        return tuple(prod(self.axes[i] for i in table) for table in self.tables)

    @property
    def width(self) -> int:
        """Cells of all tables."""
        return sum(self.sizes)

    @cached_property
    def _starts(self) -> dict[tuple[int, ...], int]:
        starts, start = {}, 0
        for table, size in zip(self.tables, self.sizes, strict=True):
            starts[table] = start
            start += size
        return starts

    def count(
        self, digits: Mapping[int, NDArray[Any]], view: NDArray[Any] | None, views: int
    ) -> Counts:
        """Count reports per view and cell of every table: shape (views, width), int64.

        Args:
            digits: for every axis that some table holds its codes, shape (n,).
            view: shape (n,), or None for one view.
            views: number of views.

        Cost: O(n · axes of all tables).
        """
        parts = []
        for table, size in zip(self.tables, self.sizes, strict=True):
            cell = np.zeros(len(digits[table[0]]), np.int64)
            if view is not None:
                cell += view
            for axis in table:
                cell *= self.axes[axis]
                cell += digits[axis]
            parts.append(np.bincount(cell, minlength=views * size).reshape(views, size))
        return np.concatenate(parts, axis=1)

    def project(self, cube: Counts, axes: tuple[int, ...], into: Counts) -> None:
        """Write the counters of the tables over these axes, from the counts over all of them.

        Args:
            cube: shape as the cardinalities of ``axes``.
            axes: ascending.
            into: shape (width,), int64; other tables' counters are left as they are.
        """
        for table, size in zip(self.tables, self.sizes, strict=True):
            if set(table) <= set(axes):
                start = self._starts[table]
                others = tuple(j for j, i in enumerate(axes) if i not in table)
                into[start : start + size] = cube.sum(axis=others).reshape(-1)

    def holder(self, attributes: Sequence[int]) -> tuple[int, ...] | None:
        """Return the smallest table that holds all of the attributes, or None."""
        wanted = set(attributes)
        holders = [
            (size, table)
            for table, size in zip(self.tables, self.sizes, strict=True)
            if wanted <= set(table)
        ]
        return min(holders)[1] if holders else None

    def read(self, counts: Counts, attributes: Sequence[int]) -> Counts:
        """Return counts over ascending ``attributes``, shaped as their table.

        Raises:
            KeyError: no table holds them.
        """
        table = self.holder(attributes)
        if table is None:
            raise KeyError(tuple(attributes))
        start = self._starts[table]
        shape = tuple(self.axes[i] for i in table)
        cube = counts[start : start + prod(shape)].reshape(shape)
        dropped = tuple(j for j, i in enumerate(table) if i not in attributes)
        read: Counts = cube.sum(axis=dropped)
        return read


def digits_of(values: NDArray[Any], axes: Sequence[int]) -> list[NDArray[np.int64]]:
    """Return codes of every axis of mixed-radix numbers, the last axis varying fastest."""
    rest = np.asarray(values).astype(np.int64)
    digits = []
    for r in reversed(axes):
        rest, digit = np.divmod(rest, r)
        digits.append(digit)
    return digits[::-1]


def integer_rows(what: str, rows: object) -> tuple[tuple[int, ...], ...]:
    """Read lists of lists of non-negative integers of a document, as tuples.

    Raises:
        PlanError: anything else.
    """
    if not isinstance(rows, list | tuple):
        raise PlanError(f"{what}: expected a list of lists of integers")
    return tuple(integer_row(what, row) for row in rows)


def integer_row(what: str, row: object) -> tuple[int, ...]:
    """Read a list of non-negative integers as a tuple.

    Raises:
        PlanError: anything else.
    """
    if (
        not isinstance(row, list | tuple)
        or not set(map(type, row)) <= {int}
        or min(row, default=0) < 0
    ):
        raise PlanError(f"{what}: expected a list of non-negative integers")
    return tuple(row)
