"""Strict reading of tables of records, from CSV files (optionally gzip) or NPZ files of bit masks.

Commands use it to learn a domain from data, to evaluate methods and to simulate devices.
"""

from __future__ import annotations

import csv
import gzip
import io
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path

import numpy as np

from calmstream.common.errors import InvalidInput
from calmstream.estimators.domain import MAX_CARDINALITY, Attribute, Codes, Domain
from calmstream.estimators.randomness import Randomness

Declared = Mapping[str, tuple[Attribute, ...]]
"""Attributes by the column that holds their values."""

MAX_DEFAULT_VALUES = 64
"""Columns with more distinct values are used only if they are named."""


@dataclass(frozen=True, slots=True, eq=False)
class RecordTable:
    """Records of a local file.

    Attributes:
        domain: the attributes that were learnt from the file: its columns in order, their labels
            sorted (as numbers if all of them are whole numbers).
        codes: shape (n, d), uint16, the codes of the records; n is at least 1.
        dropped: names of columns that were left out, because they do not have 2 to 64 different
            values, with their numbers of different values.
        learnt: whether any label was learnt from the file, not declared.
    """

    domain: Domain
    codes: Codes
    dropped: Mapping[str, int]
    learnt: bool = True

    @property
    def left_out(self) -> str:
        """The dropped columns and the reason, in one line."""
        columns = (f"{name} ({n:,} distinct values)" for name, n in self.dropped.items())
        return (
            f"left out, as they do not have 2 to {MAX_DEFAULT_VALUES} distinct values (name them "
            f"in --columns to use them): {', '.join(columns)}"
        )


def read_table(
    path: str | Path,
    *,
    columns: Sequence[str] | None = None,
    attributes: int | None = None,
    declared: Declared | None = None,
) -> RecordTable:
    """Read a file; ``.npz`` by its name, anything else as CSV.

    Args:
        path: path of the file.
        columns: names of the columns to use, in this order; by default all with 2 to 64 different
            values, in the order of the file.
        attributes: number of columns to use, from the first; by default all.
        declared: attributes of columns about which nothing is learnt.

    Raises:
        InvalidInput: the file is unreadable or malformed, or a column is missing, has only one
            value or too many values, or one that does not fit its declaration; one line with the
            path of the file.
    """
    path = Path(path)
    try:
        if path.suffix == ".npz":
            table = _read_bits(path, columns, declared or {})
        else:
            table = _read_csv(path, columns, declared or {})
        return table if attributes is None else _first(table, attributes)
    except OSError as error:
        raise InvalidInput(f"{path}: {error.strerror or error}") from None
    except InvalidInput as error:
        raise InvalidInput(f"{path}: {error}") from None


def read_records(path: str | Path, domain: Domain, randomness: Randomness | None = None) -> Codes:
    """Return the records of a file in a given domain, such as a plan's: shape (n, d), uint16.

    Args:
        path: path of the file, which may have more columns than the domain.
        domain: attributes of a record; unknown labels get the code ``other`` of their attribute.
        randomness: rounds numbers on a grid; without it they become the nearest point.

    Raises:
        InvalidInput: for the same reasons as :func:`read_table`, or because of a label that the
            domain does not have.
    """
    path = Path(path)
    columns = _npz_columns if path.suffix == ".npz" else _csv_columns
    try:
        return domain.encode(columns(path, domain), randomness)
    except OSError as error:
        raise InvalidInput(f"{path}: {error.strerror or error}") from None
    except InvalidInput as error:
        raise InvalidInput(f"{path}: {error}") from None


def read_texts(path: str | Path, columns: Sequence[str] | None = None) -> dict[str, list[str]]:
    """Read columns of a CSV file without any interpretation, for central plans.

    A field may have any length and may contain bytes that are not UTF-8, which become lone
    surrogates. So the text of one user cannot prevent that the records of others are read.

    Args:
        path: path of the file, optionally gzip.
        columns: names of the columns to read, by default all.

    Raises:
        InvalidInput: the file is unreadable, malformed or without records, or a column is missing.
    """
    path = Path(path)
    if path.suffix == ".npz":
        raise InvalidInput(f"{path}: raw records come as CSV")
    try:
        texts = _csv_columns(path, None, "surrogateescape")
    except OSError as error:
        raise InvalidInput(f"{path}: {error.strerror or error}") from None
    except InvalidInput as error:
        raise InvalidInput(f"{path}: {error}") from None
    for name in columns or ():
        if name not in texts:
            raise InvalidInput(f"{path}: there is no column {name!r}")
    return texts if columns is None else {name: texts[name] for name in columns}


def _npz_columns(path: Path, domain: Domain) -> dict[str, list[str]]:
    """Return the labels of the domain's columns in an NPZ file."""
    codes = _read_npz(path, domain.names).codes
    bits = np.array(("0", "1"))
    return {name: bits[codes[:, j]].tolist() for j, name in enumerate(domain.names)}


def _csv_columns(path: Path, _: Domain | None, errors: str = "strict") -> dict[str, list[str]]:
    """Return the labels of all columns of a CSV file."""
    header, rows = _rows(_text(path, errors))
    if not rows:
        raise InvalidInput("the file has a header, but no records")
    return dict(zip(header, map(list, zip(*rows, strict=True)), strict=True))


def _first(table: RecordTable, attributes: int) -> RecordTable:
    """Return the table with its first columns only."""
    fields = list(dict.fromkeys(a.field for a in table.domain.attributes))
    if not 1 <= attributes <= len(fields):
        raise InvalidInput(f"{attributes} attributes requested; there are {len(fields)}")
    chosen = Domain(tuple(a for a in table.domain.attributes if a.field in fields[:attributes]))
    codes = np.ascontiguousarray(table.codes[:, : len(chosen)])
    return replace(table, domain=chosen, codes=codes)


def _read_csv(path: Path, columns: Sequence[str] | None, declared: Declared) -> RecordTable:
    """Read a CSV file and learn what is not declared of its domain."""
    header, rows = _rows(_text(path))
    if not rows:
        raise InvalidInput("the file has a header, but no records")
    cells = dict(zip(header, zip(*rows, strict=True), strict=True))
    distinct = {name: set(cells[name]) for name in header}
    dropped: dict[str, int] = {}
    if columns is None:
        fits = {
            name: name in declared or 2 <= len(distinct[name]) <= MAX_DEFAULT_VALUES
            for name in header
        }
        dropped = {name: len(distinct[name]) for name in header if not fits[name]}
        columns = [name for name in header if fits[name]]
        if not columns:
            raise InvalidInput(f"no column has 2 to {MAX_DEFAULT_VALUES} distinct values")
    for name in (*columns, *declared):
        if name not in distinct:
            raise InvalidInput(f"no column {name!r}; there are {', '.join(header)}")
    if unused := [name for name in declared if name not in columns]:
        raise InvalidInput(f"column {unused[0]!r} is declared, but not used")
    learnt = [name for name in columns if name not in declared]
    for name in learnt:
        if not 2 <= len(distinct[name]) <= MAX_CARDINALITY:
            raise InvalidInput(
                f"column {name!r} has {len(distinct[name]):,} distinct values; an attribute has 2 "
                f"to {MAX_CARDINALITY:,}"
            )
    own = {name: (Attribute(name, _labels(distinct[name])),) for name in learnt}
    domain = Domain(tuple(a for name in columns for a in {**own, **declared}[name]))
    codes = domain.encode({name: cells[name] for name in columns})
    return RecordTable(domain, codes, dropped, bool(learnt))


_OTHER_FILES = (
    (b"PAR1", "a Parquet file"),
    (b"ARROW1", "an Arrow file"),
    (b"PK\x03\x04", "an archive or a workbook such as XLSX"),
    (b"\xd0\xcf\x11\xe0", "a workbook of an old Office"),
    (b"SQLite format 3", "a SQLite database"),
    (b"\xff\xfe", "text in UTF-16"),
    (b"\xfe\xff", "text in UTF-16"),
    (b"\x28\xb5\x2f\xfd", "compressed by zstd"),
    (b"\xfd7zXZ", "compressed by xz"),
    (b"BZh", "compressed by bzip2"),
    (b'{"', "JSON"),
    (b"[{", "JSON"),
    (b"[\n", "JSON"),
)
"""How files begin that people take for tables, and what they are."""

_CONVERT = (
    "save a workbook as CSV UTF-8; DuckDB converts others: "
    "COPY (FROM 'FILE') TO 'table.csv' (HEADER)"
)


def _text(path: Path, errors: str = "strict") -> str:
    """Return the text of a file, decompressed if it is gzip."""
    raw = path.read_bytes()
    if kind := next((kind for start, kind in _OTHER_FILES if raw.startswith(start)), None):
        raise InvalidInput(f"this is {kind}; tables are CSV (UTF-8, also gzip) or NPZ: {_CONVERT}")
    try:
        if raw[:2] == b"\x1f\x8b":
            raw = gzip.decompress(raw)
        return raw.decode("utf-8-sig", errors)
    except UnicodeDecodeError as error:
        raise InvalidInput(
            f"not UTF-8 text (byte {error.start:,}); save it as CSV in UTF-8, or convert it: "
            "iconv -f windows-1252 -t utf-8"
        ) from None
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise InvalidInput(f"broken gzip: {error}") from None


def _rows(text: str) -> tuple[list[str], list[list[str]]]:
    """Return header and rows of CSV text; blank lines at the end are ignored."""
    csv.field_size_limit(max(csv.field_size_limit(), len(text) + 1))
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    rows: list[list[str]] = []
    try:
        header = next(reader, [])
        for row in reader:
            rows.append(row)
            if row and len(row) != len(header):
                raise InvalidInput(
                    f"line {reader.line_num}: {len(row)} fields, the header has {len(header)}"
                )
    except csv.Error as error:
        raise InvalidInput(f"line {reader.line_num}: {error}") from None
    while rows and not rows[-1]:
        rows.pop()
    if not all(rows):
        raise InvalidInput(f"record {rows.index([]) + 1} is an empty line")
    if not header or not all(header) or len(set(header)) != len(header):
        raise InvalidInput("the first line must name every column, and none twice")
    return header, rows


def _labels(values: set[str]) -> tuple[str, ...]:
    """Return labels in order: by number if all are whole numbers, else alphabetically."""
    if all(value.removeprefix("-").isdecimal() for value in values):
        return tuple(sorted(values, key=lambda value: (Decimal(value), value)))
    return tuple(sorted(values))


def _read_bits(path: Path, columns: Sequence[str] | None, declared: Declared) -> RecordTable:
    """Read an NPZ file; refuse declarations about its bits."""
    if declared:
        raise InvalidInput(f"{next(iter(declared))!r} is declared; a file of bits has no kinds")
    return _read_npz(path, columns)


def _read_npz(path: Path, columns: Sequence[str] | None) -> RecordTable:
    """Read an NPZ file with one bit mask per record, and optional names of the bits."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            if not isinstance(archive, np.lib.npyio.NpzFile) or "records" not in archive:
                raise InvalidInput("no array named records")
            records = archive["records"]
            names = archive["names"].tolist() if "names" in archive else None
    except (zipfile.BadZipFile, zlib.error, EOFError, ValueError) as error:
        raise InvalidInput(f"not a readable NPZ file: {error}") from None
    if records.ndim != 1 or records.dtype.kind != "u" or not len(records):
        raise InvalidInput(
            f"records must be one unsigned integer per user, got shape {records.shape} of "
            f"{records.dtype}"
        )
    bits = 8 * records.dtype.itemsize
    names = [f"a{j}" for j in range(bits)] if names is None else names
    if not isinstance(names, list) or not all(isinstance(name, str) and name for name in names):
        raise InvalidInput("names must be a list of non-empty strings")
    if not 1 <= len(names) <= bits or (len(names) < bits and (records >> len(names)).any()):
        raise InvalidInput(f"{len(names)} names do not fit the {bits}-bit masks in use")
    order = {name: j for j, name in enumerate(names)}
    chosen = names if columns is None else list(columns)
    for name in chosen:
        if name not in order:
            raise InvalidInput(f"no attribute {name!r}; there are {', '.join(names)}")
    domain = Domain(tuple(Attribute(name, ("0", "1")) for name in chosen))
    codes = np.empty((len(records), len(chosen)), np.uint16)
    for j, name in enumerate(chosen):
        codes[:, j] = (records >> order[name]) & 1
    return RecordTable(domain, codes, {})
