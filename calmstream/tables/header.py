"""The names of the columns: which rows are headers, and which columns hold one list together."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from os.path import commonprefix

import numpy as np
from numpy.typing import NDArray

from calmstream.common.errors import InvalidInput
from calmstream.common.text import unseen
from calmstream.tables.delimited import Grid
from calmstream.tables.table import FileColumn, FileTable, MissingRule, Value, listed

_MARKS = frozenset(("1", "x", "yes", "true", "y", "checked", "selected", "✓", "✔"))
"""Values that say that the option of a column was chosen."""

_NUMBER = re.compile(r"[-+]?[0-9][0-9.,]*")
_YEAR = re.compile(r"(19|20)\d\d")
_MAX_ROWS = 3
_MISSING = MissingRule()


def with_names(grid: Grid, stated: int | None) -> FileTable:
    """Return the table of a grid."""
    lines = None if grid.lines is None else np.array(grid.lines, np.int64)
    if stated == 0:
        columns = tuple(
            _with_first(column, cell, f"column {j}")
            for j, (column, cell) in enumerate(zip(grid.columns, grid.head, strict=True), 1)
        )
        return FileTable(columns, grid.said, lines)
    said = list(grid.said)
    rows = _headers(grid, stated)
    kept = np.arange(len(grid.columns[0].places)) >= len(rows) - 1
    if len(rows) > 1:
        said.append(f"header: {len(rows)} rows; the second has {listed(filter(None, rows[1]), 3)}")
    repeats = kept & _repeats(grid)
    if repeats.any():
        said.append(f"left out: {int(repeats.sum()):,} lines that repeat the header")
        kept &= ~repeats
    if not kept.any():
        raise InvalidInput("the file has a header, but no records")
    names, groups = _names(rows, said)
    columns = tuple(c.taken(n, kept) for c, n in zip(grid.columns, names, strict=True))
    columns = _joined(columns, groups or list(_alike(columns)), said)
    return FileTable(columns, tuple(said), None if lines is None else lines[1:][kept])


def _with_first(column: FileColumn, cell: str, name: str) -> FileColumn:
    values: tuple[Value, ...] = (*column.values, cell)
    places = np.append(np.int32(len(column.values)), column.places)
    return FileColumn(name, values, places).mapped(values)


def _headers(grid: Grid, stated: int | None) -> list[list[str]]:
    rows = [grid.head]
    records = len(grid.columns[0].places)
    most = _MAX_ROWS if stated is None else stated
    if stated is None:
        _check_header(grid)
    while len(rows) < min(most, records):
        i = len(rows) - 1
        row = [str(column.values[column.places[i]]) for column in grid.columns]
        options = i == 0 and _heads_options(grid, row)
        if stated is None and not (options or _is_header(grid, row)):
            break
        rows.append(row)
    return rows


def _check_header(grid: Grid) -> None:
    """Refuse a first row that looks like a record: its cells occur again below, or are numbers.

    A column that says only one thing may be named after it, and others after a year.
    """
    judged, again, number = 0, list[str](), False
    records = ~_repeats(grid)
    for column, cell in zip(grid.columns, grid.head, strict=True):
        said = [value for value in column.values if not _MISSING.holds(value)]
        if not cell.strip() or len(said) < 2:
            continue
        judged += 1
        numbers = sum(bool(_NUMBER.fullmatch(str(value).strip())) for value in said)
        above = numbers > 0.9 * len(said) and _NUMBER.fullmatch(cell.strip()) is not None
        above = above and _YEAR.fullmatch(cell.strip()) is None
        if above or _occurs(column, cell, records):
            again.append(cell)
        number |= above
    if judged and (number or 2 * len(again) >= judged):
        raise InvalidInput(
            f"the first line looks like a record, as it has {listed(again, 3)}, like lines below: "
            "--header-rows 0 names the columns column 1, column 2, ..; --header-rows 1 says that "
            "it is a header"
        )


def _occurs(column: FileColumn, cell: str, rows: NDArray[np.bool_]) -> bool:
    """Return whether a cell occurs in some rows of a column."""
    if cell not in column.values:
        return False
    return bool((column.places == column.values.index(cell))[rows].any())


def _repeats(grid: Grid) -> NDArray[np.bool_]:
    """Return which rows equal the first one: shape (rows,). A row of one cell may do so."""
    found = np.ones(len(grid.columns[0].places), bool)
    for column, cell in zip(grid.columns, grid.head, strict=True):
        found &= column.places == (column.values.index(cell) if cell in column.values else -1)
    return found if len(grid.columns) > 1 else np.zeros_like(found)


def _heads_options(grid: Grid, row: list[str]) -> bool:
    """Return whether a row names options below a question that spans columns without a name.

    Such a column says nothing but its option.
    """
    options = [
        (column, cell)
        for column, name, cell in zip(grid.columns, grid.head, row, strict=True)
        if not name.strip() and cell.strip()
    ]
    return (
        bool(options)
        and not any(_is_mark(cell) for _, cell in options)
        and all(
            _says(value, cell) or _MISSING.holds(value)
            for column, cell in options
            for value in column.values
        )
    )


def _is_mark(value: Value) -> bool:
    return str(value).casefold() in _MARKS


def _is_header(grid: Grid, row: list[str]) -> bool:
    """Return whether a row below the header is one too.

    No cell of it occurs again, in columns whose values do, nor does an empty one; or it has text
    above numbers.
    """
    alone = texts = judged = 0
    for column, cell in zip(grid.columns, row, strict=True):
        n = len(column.places)
        again = column.counts[column.values.index(cell)] > 1
        if n < 8 or 2 * len(column.values) > n or (again and not cell.strip()):
            continue
        judged += 1
        alone += int(not again)
        others = [str(v) for v in column.values if v != cell and not _MISSING.holds(v)]
        numbers = sum(bool(_NUMBER.fullmatch(value.strip())) for value in others)
        text = bool(cell.strip()) and not _NUMBER.fullmatch(cell)
        texts += int(bool(others) and numbers == len(others) and text)
    return alone == judged and (judged > 2 or texts > 0 or (judged == 2 and len(set(row)) == 1))


@dataclass(frozen=True, slots=True)
class _Group:
    """Columns that hold one list together: each says whether one option was chosen."""

    question: str
    places: tuple[int, ...]
    options: tuple[str, ...]


def _names(rows: list[list[str]], said: list[str]) -> tuple[list[str], list[_Group]]:
    """Return a name for every column, all different, and the questions that span several."""
    first = [clean(cell) for cell in rows[0]]
    second = [clean(cell) for cell in rows[1]] if len(rows) > 1 else [""] * len(first)
    names, spans, question = [], dict[int, list[int]](), -1
    for j, (name, option) in enumerate(zip(first, second, strict=True)):
        if name:
            question = j
        if name or not option or question < 0:
            names.append(name or f"column {j + 1}")
        else:
            names.append(f"{first[question]}: {option}")
        spans.setdefault(question, []).append(j)
    groups = [
        _Group(first[question], tuple(places), tuple(second[j] for j in places))
        for question, places in spans.items()
        if question >= 0 and len(places) > 1 and all(second[j] for j in places)
    ]
    for group in groups:
        names[group.places[0]] = f"{group.question}: {group.options[0]}"
    if unnamed := [name for j, name in enumerate(names) if name == f"column {j + 1}"]:
        said.append(f"header: columns without a name are called {listed(unnamed)}")
    return different(names, said), groups


def different(names: list[str], said: list[str]) -> list[str]:
    """Return names of which none occurs twice."""
    found: dict[str, int] = {}
    for j, name in enumerate(names, 1):
        new, i = name, 1
        while new in found or (i > 1 and new in names):
            i += 1
            new = f"{name} ({i})"
        if new != name:
            said.append(
                f"header: columns {found[name]} and {j} are both named {name!r}; the second is "
                f"called {new!r} here"
            )
        found[new] = j
    return list(found)


def clean(cell: str) -> str:
    """Return a name that people can read: in one line, without characters that nobody sees."""
    text = " ".join(cell.split())
    if len(text) > 2 and text[0] == text[-1] == "'":
        text = text[1:-1]
    return text if unseen(text) is None else "".join(c for c in text if c == " " or not unseen(c))


def _alike(columns: tuple[FileColumn, ...]) -> Iterator[_Group]:
    """Yield neighbouring columns with names that begin alike, that say one thing or nothing."""
    said = [[v for v in c.values if not _MISSING.holds(v)] for c in columns]
    single = [len(said[j]) == 1 and len(c.values) > 1 for j, c in enumerate(columns)]
    start = 0
    while start < len(columns):
        end = start
        while end < len(columns) and single[end] and (end == start or _prefix(columns, start, end)):
            end += 1
        if end - start > 1:
            prefix = _prefix(columns, start, end - 1)
            names = [columns[j].name[len(prefix) :].strip(" ])") for j in range(start, end)]
            values = [str(said[j][0]) for j in range(start, end)]
            options = [n if _is_mark(v) else v for n, v in zip(names, values, strict=True)]
            if len(set(options)) == len(options) and all(options):
                yield _Group(prefix.rstrip(" _-:.[(/"), tuple(range(start, end)), tuple(options))
        start = max(end, start + 1)


def _prefix(columns: tuple[FileColumn, ...], start: int, end: int) -> str:
    """Return how the names of columns begin alike; empty if that is hardly anything."""
    names = [columns[j].name for j in range(start, end + 1)]
    cut = re.sub(r"[^\s_\-:.\[(/]*$", "", commonprefix(names))  # noqa: RUF071 - of texts
    return cut if len(cut) > 2 else ""


def _joined(
    columns: tuple[FileColumn, ...], groups: list[_Group], said: list[str]
) -> tuple[FileColumn, ...]:
    """Return the columns with one list in place of those that hold it together."""
    found: dict[int, FileColumn | None] = dict(enumerate(columns))
    for group in groups:
        pairs = [(columns[j], o) for j, o in zip(group.places, group.options, strict=True)]
        if not all(_MISSING.holds(v) or _says(v, o) for column, o in pairs for v in column.values):
            continue
        chosen = [np.array([_says(v, o) for v in c.values])[c.places] for c, o in pairs]
        rows, places = np.unique(np.stack(chosen, axis=1), axis=0, return_inverse=True)
        options = np.array(group.options, object)
        values = tuple(tuple(options[row].tolist()) for row in rows)
        for j in group.places:
            found[j] = None
        found[group.places[0]] = FileColumn(group.question, values, places.ravel().astype(np.int32))
        said.append(
            f"choices: {len(pairs)} columns are the options of {group.question!r}, "
            f"{listed(group.options)}"
        )
    return tuple(column for column in found.values() if column is not None)


def _says(value: Value, option: str) -> bool:
    return value == option or _is_mark(value)
