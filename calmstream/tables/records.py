"""Records of a table as codes, in a domain that is learnt from the table or given by a plan."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calmstream.common.errors import DomainError, InvalidInput
from calmstream.estimators.domain import Attribute, Codes, Domain
from calmstream.estimators.hashed import Hashed
from calmstream.estimators.kinds import Choice, Number
from calmstream.estimators.randomness import Randomness
from calmstream.tables import answers, numbers
from calmstream.tables.delimited import read_delimited
from calmstream.tables.encoding import unpacked
from calmstream.tables.reading import ReadingOptions, load
from calmstream.tables.table import LABEL, FileColumn, FileTable, listed, shown
from calmstream.tables.understand import Understood, understand

_COUNT = re.compile(r"(freq|frequency|count|counts|n|weight|total)\W*", re.IGNORECASE)
_MOST_COUNTED = 1 << 16


@dataclass(frozen=True, slots=True, eq=False)
class RecordTable:
    """Records of a local file."""

    domain: Domain
    codes: Codes  # shape (n, d), uint16; n is at least 1
    columns: tuple[Understood, ...] = ()  # empty where nothing was learnt
    said: tuple[str, ...] = ()  # what was understood of the file
    file: tuple[FileColumn, ...] = ()  # also columns that are left out

    @property
    def warnings(self) -> list[str]:
        out = [f"{c.column.name} ({c.why})" for c in self.columns if c.entry is None]
        left = [f"Left out (--columns uses them): {', '.join(out)}"] if out else []
        return [*left, *(line for column in self.columns for line in column.warnings)]


def read_table(
    path: str | Path,
    how: ReadingOptions = ReadingOptions(),  # noqa: B008 - frozen
    domain: Domain | None = None,
    randomness: Randomness | None = None,
    declared: Mapping[str, Mapping[str, Any]] = MappingProxyType({}),
) -> RecordTable:
    """Read a table in a given domain, such as a plan's; or learn what is not declared of it."""
    table = load(path, how)
    try:
        found = () if domain is not None else _understood(table, how, declared)
        if how.missing.how == "drop":
            fields = [a.field for a in domain.attributes] if domain is not None else []
            used = {*fields, *(c.column.name for c in found if c.entry is not None)}
            table = _without_missing(table, used)
            found = () if domain is not None else _understood(table, how, declared)
        if domain is None:
            domain = _domain(found)
        codes = _encoded(table, domain, randomness)
        said = (*table.said, *(_counts(domain, codes) if found else ()))
        return RecordTable(domain, codes, found, said, table.columns)
    except InvalidInput as error:
        raise InvalidInput(f"{path}: {error}") from None


def _counts(domain: Domain, codes: Codes) -> list[str]:
    """Return a line if a column looks like the number of records that each row stands for."""
    for j, name in enumerate(domain.names):
        if _COUNT.fullmatch(name) and len(domain) > 1 and len(codes) <= _MOST_COUNTED:
            rest = np.unique(np.delete(codes, j, axis=1), axis=0)
            if len(rest) == len(codes):
                return [f"counts: {name!r} looks like a number of records; repeat rows so often"]
    return []


def _domain(found: tuple[Understood, ...]) -> Domain:
    entries = [column.entry for column in found if column.entry is not None]
    if len(found[0].column.places) == 1:
        raise InvalidInput("the file has one record; a table has many")
    if not entries:
        why = "; ".join(f"{column.column.name}: {column.why}" for column in found[:4])
        raise InvalidInput(f"no column can be used ({why}); --columns names those to use")
    return Domain.from_json(entries)


def _understood(
    table: FileTable, how: ReadingOptions, declared: Mapping[str, Mapping[str, Any]]
) -> tuple[Understood, ...]:
    columns = {column.name: column for column in table.columns}
    if unused := [name for name in declared if name not in (how.columns or columns)]:
        raise InvalidInput(f"column {unused[0]!r} is declared, but not used")
    return tuple(
        Understood(columns[name], declared[name], "as declared")
        if name in declared
        else understand(columns[name], asked=how.columns is not None or name in how.choices)
        for name in how.columns or columns
    )


def _without_missing(table: FileTable, used: set[str]) -> FileTable:
    kept = np.ones(table.records, bool)
    for column in table.columns:
        if column.name in used:
            kept &= column.present[column.places]
    if not kept.any():
        raise InvalidInput("--missing drop: every record lacks something; use --missing label")
    left = int(table.records - kept.sum())
    said = f"left out: {left:,} records that lack something, by --missing drop"
    return replace(table.taken(kept), said=(*table.said, said))


def _encoded(table: FileTable, domain: Domain, randomness: Randomness | None) -> Codes:
    """Return the records of a table in a domain: shape (n, d), uint16."""
    columns = {column.name: column for column in table.columns}
    codes = np.empty((table.records, len(domain)), np.uint16)
    lists: dict[str, FileColumn] = {}
    for j, attribute in enumerate(domain.attributes):
        name, kind = attribute.field, attribute.kind
        if name not in columns:
            raise DomainError(f"there is no column {name!r}; there are {listed(columns, 12)}")
        column = columns[name]
        if isinstance(kind, Choice):
            if name not in lists:
                lists[name] = _list_of(column, kind)
            found = [kind.code(value) for value in lists[name].values]
            codes[:, j] = np.array(found, np.uint16)[lists[name].places]
        elif isinstance(kind, Number):
            codes[:, j] = _numbers(table, column, attribute, randomness)
        elif isinstance(kind, Hashed):
            texts = zip(map(str, column.values), column.present, strict=True)
            known = [text if present else None for text, present in texts]
            codes[:, j] = kind.codes(known, randomness, column.places)
        else:
            codes[:, j] = _labels(table, column, attribute)
    return codes


def _list_of(column: FileColumn, kind: Choice) -> FileColumn:
    """Return a column as lists, with the separator that fits the options best."""
    options = set(kind.options)

    def match(one: FileColumn) -> int:
        known = [not options.isdisjoint(value) for value in one.values]
        return int(one.counts[np.array(known)].sum())

    best = column
    if not any(isinstance(value, tuple) for value in column.values):
        said = zip(map(str, column.values), column.present, strict=True)
        whole = column.mapped([(text,) if present else () for text, present in said])
        marks = [x for x in answers.SEPARATORS if any(x in text for text in column.texts)]
        best = max((whole, *(answers.split(column, x) for x in marks)), key=match)
    answered = int(best.counts[np.array([bool(value) for value in best.values])].sum())
    if 2 * match(best) < answered:
        have = listed(value for value in column.values if value)
        raise InvalidInput(
            f"{match(best):,} of {answered:,} cells of {column.name!r} match an option "
            f"({listed(kind.options)}), they have {have}; state the separator, as in --choices "
            f"'{column.name}=;'"
        )
    return best


def _labels(table: FileTable, column: FileColumn, attribute: Attribute) -> NDArray[np.uint16]:
    places = {label: code for code, label in enumerate(attribute.labels)}
    lacking = places.get(LABEL, attribute.other)
    found = [
        None
        if isinstance(value, tuple)
        else places.get(value, attribute.other if present else lacking)
        for value, present in zip(column.values, column.present, strict=True)
    ]
    if None in found:
        _refuse(table, column, np.array([one is None for one in found]), attribute)
    return np.array(found, np.uint16)[column.places]


def _numbers(
    table: FileTable, column: FileColumn, attribute: Attribute, randomness: Randomness | None
) -> NDArray[np.int64]:
    assert isinstance(attribute.kind, Number)
    texts = list(map(str, column.said))
    values = np.full(len(column.values), np.nan)
    together = numbers.parsed(texts)
    if together is not None:
        values[column.present] = together[0]
    else:  # written in several ways: each text by itself
        each = (numbers.parsed([text]) for text in texts)
        values[column.present] = [np.nan if one is None else one[0][0] for one in each]
    unknown = np.isnan(values)
    if attribute.other is None and unknown.any():
        _refuse(table, column, unknown, attribute)
    known = np.where(unknown, 0.0, values)
    if randomness is not None and attribute.kind.rounding == "grid":
        codes = attribute.kind.codes(known[column.places], randomness)
    else:
        codes = attribute.kind.codes(known, None)[column.places]
    if attribute.other is None:
        return codes
    return np.where(unknown[column.places], attribute.other, codes)


def _refuse(
    table: FileTable, column: FileColumn, wrong: NDArray[np.bool_], attribute: Attribute
) -> None:
    row, name = int(wrong[column.places].argmax()), column.name
    value = column.values[column.places[row]]
    if column.rule.holds(value):
        why = (
            f"{name!r} says nothing, like {int(wrong[column.places].sum()):,} records, and has no "
            f"label {LABEL!r}; --missing drop leaves such records out"
        )
    elif isinstance(attribute.kind, Number):
        why = (
            f"{name!r} has {shown(value)}, which is not a finite number; mend it, or give the "
            "number a label 'other' in the data dictionary"
        )
    else:
        why = f"{name!r} has no label {shown(value)}; it has {listed(attribute.labels, 6)}"
    raise DomainError(f"{table.place(row)}: {why}")


def read_texts(path: str | Path, names: Sequence[str] = ()) -> dict[str, list[str]]:
    """Read columns of a CSV file, by default all, as they are, for central plans."""
    try:
        # U+FFFD for what is not UTF-8: no user's text keeps those of others from being read.
        text = unpacked(Path(path).read_bytes()).decode("utf-8-sig", "replace")
        table = read_delimited(text, None)
    except OSError as error:
        raise InvalidInput(f"{path}: {error.strerror or error}") from None
    except InvalidInput as error:
        raise InvalidInput(f"{path}: {error}") from None
    columns = {column.first: column for column in table.columns}
    if "" in columns or len(columns) < len(table.columns):
        raise InvalidInput(f"{path}: the header must name every column, and none twice")
    if missing := [name for name in names if name not in columns]:
        raise InvalidInput(f"{path}: there is no column {missing[0]!r}")
    return {name: columns[name].cells()[1:] for name in names or columns}
