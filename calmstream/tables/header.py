"""The names of the columns: which rows are headers, and which columns hold one list together."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from os.path import commonprefix

import numpy as np
from numpy.typing import NDArray

from calmstream.common.errors import InvalidInput
from calmstream.common.text import unseen
from calmstream.tables.table import FileColumn, FileTable, Value, listed

# Values that say that the option of a column was chosen.
_MARKS = frozenset(("1", "x", "yes", "true", "y", "checked", "selected", "✓", "✔"))
_NUMBER = re.compile(r"[-+]?[0-9][0-9.,]*")
_YEAR = re.compile(r"(19|20)\d\d")
_MAX_ROWS = 3


def with_names(table: FileTable, stated: int | None) -> FileTable:
    """Return a table whose first rows, as many as stated or found, are the names of its columns."""
    if stated == 0:
        return table
    if stated is None:
        table = _without_titles(table)
    head = _equal_to_first(table)
    if not head.all():
        rows = _headers(table, head, stated)
        repeats = int(head[len(rows) :].sum())
        head[: len(rows)] = True
    if head.all():
        raise InvalidInput("the file has a header, but no records")
    said = list(table.said)
    if len(rows) > 1:
        said.append(f"header: {len(rows)} rows; the second has {listed(filter(None, rows[1]), 3)}")
    if repeats:
        lines = f"{repeats:,} line{'s that repeat' if repeats > 1 else ' that repeats'}"
        said.append(f"left out: {lines} the header")
    names, groups = _names(rows, said)
    table = table.taken(~head)
    columns = [replace(c, name=name) for c, name in zip(table.columns, names, strict=True)]
    columns = _joined(columns, groups or list(_alike(columns)), said)
    return replace(table, columns=tuple(columns), said=tuple(said))


def _without_titles(table: FileTable) -> FileTable:
    """Leave out rows above the header that have a title in the first cell, or nothing."""
    while table.records > 2 and len(table.columns) > 1:
        title, *others = (column.first.strip() for column in table.columns)
        below = table.taken(slice(1, None))
        rest = [column.first.strip() for column in below.columns]
        heads = all(rest) and _is_header(below) and not _heads_options([title, *others], below)
        if any(others) or not (heads or not title or not any(rest)):
            break
        said = f"left out: {title!r} above the header"
        table = replace(below, said=(*table.said, said) if title else table.said)
    return table


def _equal_to_first(table: FileTable) -> NDArray[np.bool_]:
    """Return which rows equal the first one: shape (rows,). A row of one cell may do so."""
    found = np.ones(table.records, bool)
    for column in table.columns:
        found &= column.places == column.places[0]
    found[1:] &= len(table.columns) > 1
    return found


def _headers(table: FileTable, head: NDArray[np.bool_], stated: int | None) -> list[list[str]]:
    rows = [[column.first for column in table.columns]]
    if stated is None:
        _check_header(rows[0], table.taken(~head))
    for i in range(1, min(_MAX_ROWS if stated is None else stated, table.records - 1)):
        below = table.taken(slice(i, None))
        options = i == 1 and _heads_options(rows[0], below)
        if stated is None and not (options or _is_header(below)):
            break
        rows.append([column.first for column in below.columns])
    return rows


def _check_header(header: Sequence[str], below: FileTable) -> None:
    """Refuse a first row like a record: its cells occur again below, or are numbers (not years)."""
    judged, again, number = 0, list[str](), False
    for column, cell in zip(below.columns, header, strict=True):
        said = list(map(str, column.said))
        if not cell.strip() or len(said) < 2:
            continue
        judged += 1
        above = _all_numbers(said, 0.9) and _is_number(cell) and not _YEAR.fullmatch(cell.strip())
        if above or cell in column.values:
            again.append(cell)
        number |= above
    if judged and (number or 2 * len(again) >= judged):
        raise InvalidInput(
            f"the first line looks like a record, as it has {listed(again, 3)}, like lines below: "
            "--header-rows 0 names the columns column 1, column 2, ..; --header-rows 1 says that "
            "it is a header"
        )


def _is_number(text: str) -> bool:
    return _NUMBER.fullmatch(text.strip()) is not None


def _all_numbers(texts: Sequence[str], share: float = 1.0) -> bool:
    return bool(texts) and sum(map(_is_number, texts)) >= share * len(texts)


def _heads_options(header: Sequence[str], below: FileTable) -> bool:
    """Return whether the next row has options of a question, alone in their columns."""
    options = [
        column
        for column, name in zip(below.columns, header, strict=True)
        if not name.strip() and column.first.strip()
    ]
    return bool(options) and all(
        not _is_mark(column.first) and all(_says(value, column.first) for value in column.said)
        for column in options
    )


def _is_mark(value: Value) -> bool:
    return str(value).casefold() in _MARKS


def _is_header(below: FileTable) -> bool:
    """Whether the next row is a header too: no cell occurs again, or text is above numbers."""
    alone = texts = judged = 0
    for column in below.columns:
        cell, n = column.first, len(column.places)
        again = column.counts[column.places[0]] > 1
        if n < 8 or 2 * len(column.values) > n or (again and not cell.strip()):
            continue
        judged += 1
        alone += int(not again)
        others = [str(value) for value in column.said if value != cell]
        texts += int(_all_numbers(others) and bool(cell.strip()) and not _is_number(cell))
    same = len({column.first for column in below.columns}) == 1
    return alone == judged and (judged > 2 or texts > 0 or (judged == 2 and same))


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
    if unnamed := [name for j, name in enumerate(names, 1) if name == f"column {j}"]:
        said.append(f"header: columns without a name are called {listed(unnamed)}")
    return different(names, said), groups


def different(names: list[str], said: list[str]) -> list[str]:
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


def _alike(columns: Sequence[FileColumn]) -> Iterator[_Group]:
    """Yield neighbouring columns with names that begin alike, that say one thing or nothing."""
    said = [column.said for column in columns]
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


def _prefix(columns: Sequence[FileColumn], start: int, end: int) -> str:
    """Return how the names of columns begin alike; empty if that is hardly anything."""
    names = [columns[j].name for j in range(start, end + 1)]
    cut = re.sub(r"[^\s_\-:.\[(/]*$", "", commonprefix(names))  # noqa: RUF071 - of texts
    return cut if len(cut) > 2 else ""


def _joined(
    columns: Sequence[FileColumn], groups: Sequence[_Group], said: list[str]
) -> list[FileColumn]:
    found: dict[int, FileColumn] = dict(enumerate(columns))
    for group in groups:
        pairs = [(columns[j], o) for j, o in zip(group.places, group.options, strict=True)]
        if not all(_says(value, option) for column, option in pairs for value in column.said):
            continue
        chosen = [np.array([_says(v, o) for v in c.values])[c.places] for c, o in pairs]
        rows, places = np.unique(np.stack(chosen, axis=1), axis=0, return_inverse=True)
        options = np.array(group.options, object)
        values = tuple(tuple(options[row].tolist()) for row in rows)
        first, *others = group.places
        found[first] = FileColumn(group.question, values, places.ravel().astype(np.int32))
        for j in others:
            del found[j]
        said.append(
            f"choices: {len(pairs)} columns are the options of {group.question!r}, "
            f"{listed(group.options)}"
        )
    return list(found.values())


def _says(value: Value, option: str) -> bool:
    return value == option or _is_mark(value)
