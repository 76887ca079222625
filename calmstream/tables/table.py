"""A table as its files hold it: the distinct values of every column, and which record has which."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

Value = str | tuple[str, ...]  # a cell: its text, empty where nothing is; or the list that it holds

Places = NDArray[np.int32]

_PART = 1 << 14  # rows that are read together

_MISSING = frozenset(("", "na", "n/a", "#n/a", "<na>", "nan", "null"))


@dataclass(frozen=True, slots=True, eq=False)
class MissingRule:
    """Which cells say nothing, and what becomes of them (``--missing``)."""

    how: str = "label"  # or drop, or keep, with which empty cells still get the label
    texts: frozenset[str] = frozenset()  # further texts that say nothing

    def holds(self, value: Value) -> bool:
        if isinstance(value, tuple):
            return False
        text = value.strip()
        return text in self.texts or (
            not text if self.how == "keep" else text.casefold() in _MISSING
        )


USUAL = MissingRule()
LABEL = "missing"  # the label of cells that say nothing
OTHER = "other"  # the label of values that are not frequent


@dataclass(frozen=True, eq=False)
class FileColumn:
    """One column, or one list that several columns hold."""

    name: str
    values: tuple[Value, ...]  # distinct; each occurs
    places: Places  # shape (n,), int32: which value each record has
    rule: MissingRule = USUAL

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        return np.bincount(self.places, minlength=len(self.values))

    @cached_property
    def present(self) -> NDArray[np.bool_]:
        """Which values say something: shape (values,)."""
        return np.array([not self.rule.holds(value) for value in self.values])

    @property
    def said(self) -> list[Value]:
        return [value for value, one in zip(self.values, self.present, strict=True) if one]

    @property
    def texts(self) -> tuple[str, ...]:
        return tuple(value for value in self.values if isinstance(value, str))

    @property
    def first(self) -> str:
        return str(self.values[self.places[0]])

    def cells(self) -> list[str]:
        texts = list(map(str, self.values))
        return [texts[place] for place in self.places.tolist()]

    def taken(self, rows: Any) -> FileColumn:
        used, places = np.unique(self.places[rows], return_inverse=True)
        values = tuple(self.values[i] for i in used.tolist())
        return replace(self, values=values, places=places.astype(np.int32))

    def mapped(self, values: Sequence[Value]) -> FileColumn:
        found: dict[Value, int] = {}
        into = [found.setdefault(value, len(found)) for value in values]
        return replace(self, values=tuple(found), places=np.array(into, np.int32)[self.places])


class ColumnBuilder:
    """Collects the cells of a column part by part."""

    def __init__(self) -> None:
        self._values: dict[Value, int] = {}
        self._parts: list[Places] = []

    def extend(self, cells: Iterable[Value]) -> None:
        values = self._values
        self._parts.append(
            np.array([values.setdefault(cell, len(values)) for cell in cells], np.int32)
        )

    def column(self, name: str) -> FileColumn:
        return FileColumn(name, tuple(self._values), np.concatenate(self._parts))


@dataclass(frozen=True, eq=False)
class FileTable:
    """The columns of a file, and what was understood on the way."""

    columns: tuple[FileColumn, ...]  # in the order of the file, with different names
    said: tuple[str, ...] = ()  # what a person should know about the file
    lines: NDArray[np.int64] | None = None  # of each record; None where there are no lines

    @property
    def records(self) -> int:
        return len(self.columns[0].places)

    def place(self, row: int) -> str:
        return f"record {row + 1:,}" if self.lines is None else f"line {self.lines[row]:,}"

    def taken(self, rows: Any) -> FileTable:
        columns = tuple(column.taken(rows) for column in self.columns)
        lines = None if self.lines is None else self.lines[rows]
        return replace(self, columns=columns, lines=lines)


def of_rows(rows: Iterable[tuple[int, Sequence[str]]], said: Iterable[str]) -> FileTable:
    rows, lines, builders = iter(rows), list[int](), list[ColumnBuilder]()
    while part := list(islice(rows, _PART)):
        lines += [line for line, _ in part]
        builders = builders or [ColumnBuilder() for _ in part[0][1]]
        for builder, *cells in zip(builders, *(row for _, row in part), strict=True):
            builder.extend(cells)
    columns = (builder.column(f"column {j}") for j, builder in enumerate(builders, 1))
    return FileTable(tuple(columns), tuple(said), np.array(lines, np.int64))


def shown(value: Value, width: int = 40) -> str:
    """Return a value for a message: in quotes, and not longer than a line has room for."""
    text = ";".join(value) if isinstance(value, tuple) else value
    return repr(text if len(text) <= width else f"{text[: width - 10]}… ({len(text):,} characters)")


def listed(values: Iterable[Value], most: int = 4) -> str:
    found = list(values)
    more = f" and {len(found) - most:,} more" if len(found) > most else ""
    return ", ".join(map(shown, found[:most])) + more
