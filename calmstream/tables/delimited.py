"""Text with a separator (CSV and its kin) as a grid of cells; the separator is found or stated."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice

from calmstream.common.errors import InvalidInput
from calmstream.tables.table import ColumnBuilder, FileColumn, listed

_FOUND = ("\t", ";", "|", ",")
"""Separators that are found, in the order in which they win where two fit equally well."""

_NAMES = {"\t": "tab", ";": "semicolon", "|": "bar", ",": "comma", " ": "space"}
_NONE = "\x1f"
"""Separator of a file with one column: no text has it."""

_SAMPLE_LINES = 2000
_SAMPLE_CHARACTERS = 1 << 20
_PART = 1 << 14
_QUOTED = re.compile(r'\s*(("[^"]*"|NA|[-+.\deE]+)(\s+|$))+')
MAX_COLUMNS = 20_000
_MOST_BEFORE = 20


@dataclass(frozen=True, eq=False)
class Grid:
    """Cells without names.

    Attributes:
        head: the first row, which may be the header.
        columns: the cells of all other rows; equally long.
        lines: shape (rows,), the line of each row, the first one's before; None where a file has
            no lines.
        said: what a person should know.
    """

    head: list[str]
    columns: tuple[FileColumn, ...]
    lines: list[int] | None
    said: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Dialect:
    """How the cells of a text are separated."""

    delimiter: str
    escape: str | None = None
    spaced: bool = False

    def reader(self, lines: Iterator[str]) -> Iterator[list[str]]:
        """Return the rows of lines; blank lines are empty rows."""
        if self.delimiter == " ":
            lines = map(str.strip, lines)
        return csv.reader(
            lines,
            delimiter=self.delimiter,
            escapechar=self.escape,
            doublequote=self.escape is None,
            skipinitialspace=self.spaced or self.delimiter == " ",
            strict=True,
        )


def read_delimited(text: str, delimiter: str | None) -> Grid:
    """Return the cells of a text."""
    csv.field_size_limit(max(csv.field_size_limit(), len(text) + 1))
    comments, start = _comments(text)
    body, first = text[start:], 1 + text.count("\n", 0, start)
    said = [f"left out: {comments} lines of comments before the table"] if comments else []
    try:
        return _grid(body, *_dialect(body, delimiter, None), first, said)
    except InvalidInput as error:
        if '\\"' not in body:
            raise
        said.append("quotes: a backslash before a quote belongs to it")
        try:
            return _grid(body, *_dialect(body, delimiter, "\\"), first, said)
        except InvalidInput:
            raise error from None


def _comments(text: str) -> tuple[int, int]:
    """Return the number of lines that begin with ``#`` before a table, and where it begins.

    The last of them is the header where it has as many cells as the line after it.
    """
    lines, place = [], 0
    while place < len(text) and text[place] in "#\r\n":
        end = text.find("\n", place)
        end = len(text) if end < 0 else end + 1
        lines.append(text[place:end])
        place = end
    if not any(line.startswith("#") for line in lines):
        return 0, 0
    after = text[place : place + 4096].split("\n", maxsplit=1)[0]
    last = next(line for line in reversed(lines) if line.startswith("#"))
    for delimiter in _FOUND:
        if 0 < after.count(delimiter) == last.count(delimiter) and last[1:2].strip():
            place = text.rindex(last, 0, place)  # blank lines may stand below it
            lines.remove(last)
            break
    return sum(line.startswith("#") for line in lines), place


def _dialect(
    body: str, stated: str | None, escape: str | None
) -> tuple[Dialect, int, tuple[str, ...]]:
    """Return the dialect of a text, the number of its columns and what is to be said about it."""
    lines = list(islice(io.StringIO(body[:_SAMPLE_CHARACTERS], newline=""), _SAMPLE_LINES))
    if len(body) > _SAMPLE_CHARACTERS and 1 < len(lines) < _SAMPLE_LINES:
        lines.pop()
    if stated is not None:
        dialect = Dialect({"tab": "\t", "space": " ", "\\t": "\t"}.get(stated, stated), escape)
        if len(dialect.delimiter) != 1 or dialect.delimiter in '"\r\n':
            raise InvalidInput(f"--delimiter: expected one character, tab or space, got {stated!r}")
        return dialect, _fit(lines, dialect)[1], ()
    best, width, fit = Dialect(_NONE, escape), 1, 0.5
    for delimiter in _FOUND:
        dialect = Dialect(delimiter, escape)
        found, columns = _fit(lines, dialect)
        if columns > 1 and found > fit:
            best, width, fit = dialect, columns, found
    if width == 1:
        best, width = _unlike_header(lines, escape)
    if width == 1:
        return best, 1, ("separator: none found, so a line is a cell; --delimiter states one",)
    said = () if best.delimiter == "," else (f"separator: {_NAMES[best.delimiter]}, as found",)
    if all(line.count(best.delimiter) == line.count(f"{best.delimiter} ") for line in lines):
        return replace(best, spaced=True), width, (*said, "separator: with a space after it")
    return best, width, said


def _unlike_header(lines: list[str], escape: str | None) -> tuple[Dialect, int]:
    """Return the dialect of rows that are alike, but not like the header; or that of one column.

    Spaces separate numbers and quoted texts only, as others have spaces inside.
    """
    spaces = Dialect(" ", escape)
    fit, width = _fit(lines, spaces)
    if fit == 1.0 and width > 1:
        with suppress(csv.Error):
            cells = [cell for row in islice(spaces.reader(iter(lines)), 1, 100) for cell in row]
            if sum(map(_is_number, cells)) * 2 > len(cells) or all(map(_QUOTED.fullmatch, lines)):
                return spaces, width
    for delimiter in _FOUND:
        dialect = Dialect(delimiter, escape)
        fit, width = _fit(lines[1:], dialect)
        if fit > 0.9 and width > 2:
            return dialect, width
    return Dialect(_NONE, escape), 1


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _fit(lines: list[str], dialect: Dialect) -> tuple[float, int]:
    """Return how well a dialect fits, and the most frequent number of cells.

    That is the share of rows with so many cells, less a tenth if rows of one cell are before the
    header; it is 0 where the header has another number.
    """
    widths: list[int] = []
    with suppress(csv.Error):  # found again, with its line, when the whole text is read
        widths.extend(len(row) for row in dialect.reader(iter(lines)) if row)
    if not widths:
        return 0.0, 1
    width = Counter(widths).most_common(1)[0][0]
    start = next(i for i, w in enumerate(widths) if w > 1 or w == width)
    if start > _MOST_BEFORE or not width - 1 <= widths[start] <= width:
        return 0.0, width
    fitting = widths.count(width) + int(widths[start] == width - 1)
    return fitting / (len(widths) - start) - 0.1 * bool(start), width


def _grid(
    body: str, dialect: Dialect, width: int, about: tuple[str, ...], first: int, said: list[str]
) -> Grid:
    """Read all rows; what stands before the header is left out, and blank lines are."""
    if width > MAX_COLUMNS:
        raise InvalidInput(f"{width:,} columns; a table has at most {MAX_COLUMNS:,}")
    said = [*about, *said]
    rows = _Rows(dialect, body, first)
    head = _head(rows, width, said)
    lines, builders = [rows.line], [ColumnBuilder() for _ in range(width)]
    while part := list(islice(rows.of(width), _PART)):
        lines.extend(line for line, _ in part)
        cells_of = zip(*(row for _, row in part), strict=True)
        for builder, cells in zip(builders, cells_of, strict=True):
            builder.extend(cells)
    if rows.blank:
        said.append(f"left out: {rows.blank:,} blank lines")
    columns = tuple(builder.column("") for builder in builders)
    if len(head) < width and columns[-1].values == ("",):
        head = [*head, ""]
    elif len(head) < width:
        head = ["", *head]
        said.append("header: one name less than there are columns, so the first has no name")
    return Grid(head, columns, lines, tuple(said))


def _head(rows: _Rows, width: int, said: list[str]) -> list[str]:
    """Return the first row that is as long as the table; titles before it are left out.

    A blank line stands below a title; a lone cell without one may be the header.
    """
    before: list[str] = []
    for row in rows.full():
        if width - 1 <= len(row) <= width and not len(row) == 1 < width:
            if before and not rows.blank:
                break
            if before:
                said.append(f"left out: {len(before)} lines before the header, {listed(before, 1)}")
            return row
        before.append(row[0])
        if len(before) > _MOST_BEFORE or len(row) > 1:
            raise rows.ragged(row, width)
    if before:
        raise InvalidInput(
            f"the first line has one cell ({listed(before, 1)}), where others have {width}: delete "
            "it if it is a title, or state another --delimiter"
        )
    raise InvalidInput("the file has no records")


class _Rows:
    """The rows of a text with their lines."""

    def __init__(self, dialect: Dialect, body: str, first: int) -> None:
        self._reader = dialect.reader(iter(io.StringIO(body, newline="")))
        self._dialect = dialect
        self._before = first - 1
        self.blank = 0

    @property
    def line(self) -> int:
        return self._before + self._reader.line_num  # type: ignore[attr-defined, no-any-return]

    def full(self) -> Iterator[list[str]]:
        """Yield the rows that are not blank."""
        try:
            for row in self._reader:
                if row:
                    yield row
                else:
                    self.blank += 1
        except csv.Error as error:
            raise InvalidInput(f"line {self.line:,}: {_cause(error)}") from None

    def of(self, width: int) -> Iterator[tuple[int, list[str]]]:
        """Yield the rows with their lines; each must have as many cells as the table."""
        for row in self.full():
            if len(row) > width and not any(row[width:]):
                del row[width:]
            if len(row) != width:
                raise self.ragged(row, width)
            yield self.line, row

    def ragged(self, row: list[str], width: int) -> InvalidInput:
        """Return the error about a row with another number of cells."""
        name = _NAMES.get(self._dialect.delimiter, repr(self._dialect.delimiter))
        return InvalidInput(
            f"line {self.line:,}: {len(row)} cell{'s' * (len(row) != 1)}, where others have "
            f"{width}; mend the line (a text with a {name} in it needs quotes), or state another "
            "--delimiter"
        )


def _cause(error: csv.Error) -> str:
    """Return what is wrong with a line, and what to do about it."""
    text = str(error)
    if "expected after" in text:
        return "text after a closing quote; write a quote inside quotes twice"
    if "unexpected end" in text:
        return "a quote is not closed before the end of the file; mend the line where it opens"
    return f"{text}; mend the line, or state another --delimiter"
