"""Text with a separator (CSV and its kin) as a table without names; the separator is found."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain, islice

from calmstream.common.errors import InvalidInput
from calmstream.tables.table import FileTable, listed, of_rows

_NAMES = {"\t": "tab", ";": "semicolon", "|": "bar", ",": "comma", " ": "space"}
"""Separators that are found, in the order in which they win where two fit equally well."""

_NONE = "\x1f"  # separator of a file with one column: no text has it

_SAMPLE_LINES = 2000
_SAMPLE_CHARACTERS = 1 << 20
_MOST_BEFORE = 20  # most lines before the header

_SPACED = re.compile(r'\s*("|[-+.\d]+\s+[-+.\d])')
_MARK = re.compile(r'"?sep=(.)"?\r?\n', re.IGNORECASE)  # a spreadsheet's separator

MAX_COLUMNS = 20_000

Row = tuple[int, list[str]]  # a line and its cells


@dataclass(frozen=True, slots=True)
class Dialect:
    """How the cells of a text are separated."""

    delimiter: str
    escape: str | None = None
    spaced: bool = False
    width: int = 1  # number of columns

    def reader(self, lines: Iterable[str]) -> Iterator[list[str]]:
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

    def fit(self, lines: Sequence[str]) -> tuple[float, int]:
        """Return the share of rows with the most frequent number of cells, and that number."""
        widths: list[int] = []
        with suppress(csv.Error):  # found again, with its line, when the whole text is read
            widths.extend(len(row) for row in self.reader(lines) if row)
        if not widths:
            return 0.0, 1
        width, rows = Counter(widths).most_common(1)[0]
        return rows / len(widths), width


def read_delimited(text: str, delimiter: str | None) -> FileTable:
    csv.field_size_limit(max(csv.field_size_limit(), len(text) + 1))
    comments, start = _comments(text)
    lines = f"{comments} line{'s' * (comments > 1)}"
    said = [f"left out: {lines} of comments before the table"] if comments else []
    if mark := _MARK.match(text):
        delimiter, start = delimiter or mark[1], mark.end()
        said.append(f"left out: the line {mark[0].strip()!r}")
    try:
        return _table(text, start, delimiter, None, said)
    except InvalidInput as error:
        if '\\"' not in text:
            raise
        said.append("quotes: a backslash before a quote belongs to it")
        with suppress(InvalidInput):
            return _table(text, start, delimiter, "\\", said)
        raise error from None


def _comments(text: str) -> tuple[int, int]:
    """Return the number of ``#`` lines before a table, and where it begins, maybe in one."""
    before = re.compile(r"(?:\r?\n|#[^\n]*\n)*").match(text)
    assert before is not None
    comments = list(re.finditer(r"^#.*\n", before[0], re.MULTILINE))
    if not comments:
        return 0, 0
    last = comments[-1]
    after = text[before.end() : before.end() + 4096].partition("\n")[0]
    if any(0 < after.count(mark) == last[0].count(mark) for mark in _NAMES if mark != " "):
        return len(comments) - 1, last.start()
    return len(comments), before.end()


def _dialect(body: str, stated: str | None, escape: str | None, said: list[str]) -> Dialect:
    lines = list(islice(io.StringIO(body[:_SAMPLE_CHARACTERS], newline=""), _SAMPLE_LINES))
    if len(body) > _SAMPLE_CHARACTERS and 1 < len(lines) < _SAMPLE_LINES:
        lines.pop()
    if stated is not None:
        dialect = Dialect({"tab": "\t", "space": " ", "\\t": "\t"}.get(stated, stated), escape)
        if len(dialect.delimiter) != 1 or dialect.delimiter in '"\r\n':
            raise InvalidInput(f"--delimiter: expected one character, tab or space, got {stated!r}")
        return replace(dialect, width=dialect.fit(lines)[1])
    best, share = Dialect(_NONE, escape), 0.5
    for delimiter in _NAMES:
        # Spaces separate numbers and quoted texts only, as others have spaces inside.
        if delimiter == " " and not any(map(_SPACED.match, lines[:2])):
            continue
        dialect = Dialect(delimiter, escape)
        found, width = dialect.fit(lines)
        if width > 1 and found > share:
            best, share = replace(dialect, width=width), found
    mark = best.delimiter
    if best.width == 1:
        said.append("separator: none found, so a line is a cell; --delimiter states one")
    elif mark != ",":
        said.append(f"separator: {_NAMES[mark]}, as found")
    if best.width > 1 and all(line.count(mark) == line.count(f"{mark} ") for line in lines):
        said.append("separator: with a space after it")
        best = replace(best, spaced=True)
    return best


def _table(
    text: str, start: int, stated: str | None, escape: str | None, said: list[str]
) -> FileTable:
    body, said = text[start:], list(said)
    dialect = _dialect(body, stated, escape, said)
    if dialect.width > MAX_COLUMNS:
        raise InvalidInput(f"{dialect.width:,} columns; a table has at most {MAX_COLUMNS:,}")
    rows = _rows(body, dialect, text.count("\n", 0, start))
    head = _head(rows, dialect, said)
    even = _even(rows, dialect)
    part = list(islice(even, _SAMPLE_LINES))
    if len(head[1]) < dialect.width:
        trailing = bool(part) and not any(row[-1] for _, row in part)
        head[1].insert(dialect.width if trailing else 0, "")
        if not trailing:
            said.append("header: one name less than there are columns, so the first has no name")
    return of_rows(chain([head], part, even), said)


def _rows(body: str, dialect: Dialect, before: int) -> Iterator[Row]:
    reader = dialect.reader(io.StringIO(body, newline=""))
    try:
        for row in reader:
            if row:
                yield before + reader.line_num, row  # type: ignore[attr-defined]
    except csv.Error as error:
        line = before + reader.line_num  # type: ignore[attr-defined]
        raise InvalidInput(f"line {line:,}: {_cause(error)}") from None


def _head(rows: Iterator[Row], dialect: Dialect, said: list[str]) -> Row:
    """Return the first row that is as long as the table; titles before it are left out."""
    titles, width = list[str](), dialect.width
    for line, row in rows:
        if width - 1 <= len(row) <= width and (len(row) > 1 or width == 1):
            if titles:
                lines = f"{len(titles)} line{'s' * (len(titles) > 1)}"
                said.append(f"left out: {lines} before the header, {listed(titles, 1)}")
            return line, row
        if len(row) > 1 or len(titles) == _MOST_BEFORE:
            raise _ragged(line, row, dialect)
        titles.append(row[0])
    raise InvalidInput("the file has no records")


def _even(rows: Iterable[Row], dialect: Dialect) -> Iterator[Row]:
    """Yield rows, each of which must have as many cells as the table; empty ones may follow."""
    for line, row in rows:
        if not any(row[dialect.width :]):
            del row[dialect.width :]
        if len(row) != dialect.width:
            raise _ragged(line, row, dialect)
        yield line, row


def _ragged(line: int, row: list[str], dialect: Dialect) -> InvalidInput:
    name = _NAMES.get(dialect.delimiter, repr(dialect.delimiter))
    return InvalidInput(
        f"line {line:,}: {len(row)} cell{'s' * (len(row) != 1)}, where others have "
        f"{dialect.width}; mend the line (a text with a {name} in it needs quotes), or state "
        "another --delimiter"
    )


def _cause(error: csv.Error) -> str:
    text = str(error)
    if "expected after" in text:
        return "text after a closing quote; write a quote inside quotes twice"
    if "unexpected end" in text:
        return "a quote is not closed before the end of the file; mend the line where it opens"
    return f"{text}; mend the line, or state another --delimiter"
