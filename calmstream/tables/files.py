"""The cells of a file, whatever it is: text with a separator, Parquet, Arrow, JSON lines, Excel."""

from __future__ import annotations

import json
import re
import zipfile
import zlib
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import date, time
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from calmstream.common.errors import InvalidInput
from calmstream.tables.delimited import MAX_COLUMNS, Grid, read_delimited
from calmstream.tables.encoding import decoded, unpacked
from calmstream.tables.header import clean, different
from calmstream.tables.table import ColumnBuilder, FileColumn, FileTable, Value

_OTHERS = (
    (b"SQLite format 3", "a SQLite database: export its table as CSV"),
    (b"\xfd7zXZ", "compressed by xz: unpack it, or compress it by gzip or zstd"),
    (b"%PDF", "a PDF document: save its table as CSV"),
    (b"<", "a document of markup (HTML, XML): save its table as CSV"),
)
"""How files begin that people take for tables, and what to do with them."""

_PROGRAMS = {
    **dict.fromkeys((".sav", ".zsav", ".por"), "SPSS"),
    **dict.fromkeys((".dta",), "Stata"),
    **dict.fromkeys((".sas7bdat", ".xpt"), "SAS"),
    **dict.fromkeys((".rds", ".rda", ".rdata"), "R"),
}
_CELL = re.compile(rb'<c r="([A-Z]{1,3})([0-9]{1,7})"[^>]*[^/]>')
_EXTENT = re.compile(rb'<dimension ref="[A-Z]{1,3}[0-9]{1,7}:([A-Z]{1,3})([0-9]{1,7})"')
_MAX_CELLS = 1 << 26
"""Most cells of a workbook's sheet, from its first to its last value: the reader holds them all."""

_JSON = re.compile(r'\s*(\{\s*["}]|\[\s*[{\]])')
_PART = 1 << 14


def read_file(path: str | Path, *, delimiter: str | None, encoding: str | None) -> Grid | FileTable:
    """Return the cells of a file; a table where the file itself names its columns."""
    if program := _PROGRAMS.get(Path(path).suffix.lower()):
        raise InvalidInput(f"this is a file of {program}: save it as CSV, Excel or Parquet")
    try:
        raw = unpacked(Path(path).read_bytes())
    except OSError as error:
        raise InvalidInput(f"{error.strerror or error}") from None
    if raw.startswith((b"PAR1", b"ARROW1")):
        return _arrow(raw)
    if raw.startswith(b"PK\x03\x04"):
        return _archive(raw)
    if raw.startswith(b"\xd0\xcf\x11\xe0"):
        return _workbook(raw)
    if kind := next((kind for start, kind in _OTHERS if raw.lstrip().startswith(start)), None):
        raise InvalidInput(f"this is {kind}")
    text, said = decoded(raw, encoding)
    del raw
    if _JSON.match(text):
        return _json(text, said)
    grid = read_delimited(text, delimiter)
    return Grid(grid.head, grid.columns, grid.lines, (*said, *grid.said))


def _arrow(raw: bytes) -> FileTable:
    """Read Parquet or an Arrow file; fields of a record in a record get names such as a.b."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        if raw.startswith(b"PAR1"):
            table = pq.read_table(BytesIO(raw))
        else:
            table = pa.ipc.open_file(BytesIO(raw)).read_all()
        while any(pa.types.is_struct(field.type) for field in table.schema):
            table = table.flatten()
        named = zip(table.column_names, table.columns, strict=True)
        columns = tuple(_arrow_column(name, column) for name, column in named)
    except (OSError, ValueError, TypeError, KeyError, OverflowError, pa.ArrowException) as error:
        first = str(error).split("\n")[0]
        raise InvalidInput(f"a broken Parquet or Arrow file: {first}; write it again") from None
    return _named(columns, [])


def _arrow_column(name: str, column: Any) -> FileColumn:
    import pyarrow as pa

    builder = ColumnBuilder()
    try:
        encoded = column.combine_chunks().dictionary_encode()
        if isinstance(encoded, pa.ChunkedArray):
            encoded = encoded.combine_chunks()
        values = _texts(encoded.dictionary)
        places = np.asarray(encoded.indices.fill_null(len(values)), np.int32)
        return (
            FileColumn(name, (*values, ""), places).mapped((*values, "")).taken(name, slice(None))
        )
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid, AttributeError):
        builder.extend(_texts(column))
    return builder.column(name)


def _texts(values: Any) -> list[Value]:
    """Return typed values as cells; times that Python cannot hold are written by Arrow."""
    import pyarrow as pa

    try:
        found = values.to_pylist()
    except (ValueError, OverflowError):
        if not pa.types.is_temporal(values.type):
            raise
        found = values.cast(pa.string()).to_pylist()
    return [text_of(value) for value in found]


def _archive(raw: bytes) -> Grid | FileTable:
    """Read what is a ZIP file inside: a workbook, or NumPy's bit masks."""
    try:
        with zipfile.ZipFile(BytesIO(raw)) as archive:
            names = archive.namelist()
    except (zipfile.BadZipFile, NotImplementedError, ValueError) as error:
        raise InvalidInput(f"a broken workbook or archive: {error}; save it again") from None
    if "records.npy" in names:
        return _bits(raw)
    if not any(name.startswith(("xl/", "content.xml")) for name in names):
        raise InvalidInput(f"this is an archive of {len(names)} files: unpack it first")
    for name in names:
        if name.startswith("xl/worksheets/") and _area(raw, name) > _MAX_CELLS:
            raise InvalidInput(
                f"{name} has a value so far from the others that it spans more than "
                f"{_MAX_CELLS:,} cells: delete that value, or save the sheet as CSV"
            )
    return _workbook(raw)


def _area(raw: bytes, name: str) -> int:
    """Return the number of cells of a sheet up to its last row and column; 0 if it is broken."""
    rows = columns = 0
    with (
        suppress(zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError),
        zipfile.ZipFile(BytesIO(raw)) as archive,
        archive.open(name) as sheet,
    ):
        text = sheet.read(1 << 20)
        if (stated := _EXTENT.search(text)) and _place(*stated.groups()) <= _MAX_CELLS:
            return 0
        while text:  # what is stated may have no value
            for letters, row in _CELL.findall(text):
                rows, columns = max(rows, int(row)), max(columns, _place(letters, b"1"))
            more = sheet.read(1 << 20)
            text = text[-64:] + more if more else b""
    return rows * columns


def _place(letters: bytes, row: bytes) -> int:
    """Return the number of cells up to a cell such as AB12."""
    column = 0
    for letter in letters:
        column = 26 * column + letter - 64
    return column * int(row)


def _workbook(raw: bytes) -> Grid:
    """Read the sheet of a workbook that has most rows."""
    import python_calamine

    sheets: dict[str, list[list[Any]]] = {}
    try:
        workbook = python_calamine.load_workbook(BytesIO(raw))
        for about in workbook.sheets_metadata:
            if about.typ == python_calamine.SheetTypeEnum.WorkSheet:
                sheets[about.name] = workbook.get_sheet_by_name(about.name).to_python(
                    skip_empty_area=False
                )
    except (python_calamine.CalamineError, OSError, ValueError, zipfile.BadZipFile) as error:
        raise InvalidInput(f"a broken workbook: {error}; save it again, or as CSV") from None
    name = max(sheets, key=lambda name: len(sheets[name]), default="")
    texts = [[str(text_of(cell)) for cell in row] for row in sheets.get(name, [])]
    rows = [(i, row) for i, row in enumerate(texts, 1) if any(map(str.strip, row))]
    said = [f"sheet: {name!r}, the longest of {len(sheets)}"] if len(sheets) > 1 else []
    while len(rows) > 1 and sum(map(bool, rows[0][1])) == 1 and len(rows[0][1]) > 2:
        _, title = rows.pop(0)
        said.append(f"left out: the title {''.join(title)!r} above the table")
    if len(rows) < 2:
        raise InvalidInput("the workbook has no records")
    builders = [ColumnBuilder() for _ in rows[0][1]]
    for j, builder in enumerate(builders):
        builder.extend(row[j] for _, row in rows[1:])
    columns = tuple(builder.column("") for builder in builders)
    return Grid(rows[0][1], columns, [i for i, _ in rows], tuple(said))


def _json(text: str, said: list[str]) -> FileTable:
    decode = json.JSONDecoder(
        parse_int=str, parse_constant=lambda _: None, object_hook=_flat
    ).decode
    try:
        if _is_one_value(text):
            return _objects(enumerate(_records(decode(text), said), 1), said)
        lines = enumerate(text.split("\n"), 1)
        return _objects(((i, _line(decode, i, x)) for i, x in lines if x.strip()), said)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno:,}, column {error.colno}"
        raise InvalidInput(f"{where}: not JSON, {error.msg}; mend it") from None
    except RecursionError:
        raise InvalidInput(
            "JSON that is nested too deeply; a record has fields and lists"
        ) from None


def _is_one_value(text: str) -> bool:
    """Return whether a text is one JSON value; JSON lines are several."""
    if text.lstrip().startswith("["):
        return True
    first, _, rest = text.strip().partition("\n")
    return not rest or not first.rstrip().endswith("}")


def _records(value: Any, said: list[str]) -> list[Any]:
    """Return the list of records that a JSON value is, or has in one of its fields."""
    if isinstance(value, list):
        return value
    lists = {name: x for name, x in value.items() if isinstance(x, list) and len(x) > 1}
    for name, one in lists.items():
        if len(lists) == 1 and isinstance(one[0], dict):
            said.append(f"records: those in {name!r}")
            return one
    raise InvalidInput(
        "one JSON object is one record; write a list of objects, or one object a line"
    )


def _line(decode: Any, i: int, line: str) -> Any:
    try:
        return decode(line)
    except json.JSONDecodeError as error:
        raise InvalidInput(
            f"line {i:,}, column {error.colno}: not JSON, {error.msg}; JSON lines have one object "
            "a line"
        ) from None


def _objects(found: Iterable[tuple[int, Any]], said: list[str]) -> FileTable:
    """Return the table of objects; a field that an object lacks is empty."""
    builders: dict[str, ColumnBuilder] = {}
    lines: list[int] = []
    rows = iter(found)
    while part := list(islice(rows, _PART)):
        for i, row in part:
            if not isinstance(row, dict):
                raise InvalidInput(f'line {i:,}: expected an object such as {{"region": "EU"}}')
        names = dict.fromkeys(name for _, row in part for name in row)
        if len(builders.keys() | names.keys()) > MAX_COLUMNS:
            raise InvalidInput(
                f"more than {MAX_COLUMNS:,} different fields; a field is a column: let an id be a "
                "value, not the name of a field"
            )
        for name in names:
            if name not in builders:
                builders[name] = ColumnBuilder()
                builders[name].extend([""] * len(lines))
        for name, builder in builders.items():
            builder.extend(text_of(row.get(name)) for _, row in part)
        lines.extend(i for i, _ in part)
    columns = tuple(builder.column(name) for name, builder in builders.items())
    return _named(columns, said, np.array(lines, np.int64))


def _flat(record: dict[str, Any]) -> dict[str, Any]:
    """Return an object whose fields are no objects: those get names such as a.b."""
    if not any(isinstance(value, dict) for value in record.values()):
        return record
    found: dict[str, Any] = {}
    for name, value in record.items():
        inner = value if isinstance(value, dict) else {"": value}
        found |= {f"{name}.{key}" if key else name: one for key, one in inner.items()}
    return found


def _bits(raw: bytes) -> FileTable:
    """Read an NPZ file with one bit mask per record, and optional names of the bits."""
    try:
        with np.load(BytesIO(raw), allow_pickle=False) as archive:
            records = archive["records"]
            names = [str(x) for x in archive["names"].tolist()] if "names" in archive else None
    except (zipfile.BadZipFile, zlib.error, EOFError, ValueError, OSError) as error:
        raise InvalidInput(f"not a readable NPZ file: {error}") from None
    if records.ndim != 1 or records.dtype.kind != "u":
        raise InvalidInput(
            f"records must be one unsigned integer per user, got shape {records.shape} of "
            f"{records.dtype}"
        )
    bits = 8 * records.dtype.itemsize
    names = [f"a{j}" for j in range(bits)] if names is None else names
    if len(names) > bits or (len(names) < bits and (records >> len(names)).any()):
        raise InvalidInput(f"{len(names)} names do not fit the {bits}-bit masks in use")
    columns = (
        FileColumn(name, ("0", "1"), ((records >> j) & 1).astype(np.int32)).taken(name, slice(None))
        for j, name in enumerate(names)
    )
    return _named(tuple(columns), [])


def _named(columns: tuple[FileColumn, ...], said: Sequence[str], lines: Any = None) -> FileTable:
    if not columns or not len(columns[0].places):
        raise InvalidInput("the file has no records")
    said = list(said)
    names = different([clean(c.name) or f"column {j}" for j, c in enumerate(columns, 1)], said)
    named = (replace(c, name=name) for c, name in zip(columns, names, strict=True))
    return FileTable(tuple(named), tuple(said), lines)


def text_of(value: Any) -> Value:  # noqa: PLR0911 - one for each type
    """Return a typed value as a cell: whole numbers without a point, dates as ISO 8601."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode() if not value.isascii() else value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        if value != value:  # noqa: PLR0124 - NaN
            return ""
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
    if isinstance(value, (date, time)):
        return value.isoformat()
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, (list, tuple)):
        if any(isinstance(one, (list, tuple, dict)) for one in value):
            return json.dumps(value, ensure_ascii=False, default=str)
        return tuple(dict.fromkeys(str(text_of(one)) for one in value if one is not None))
    return json.dumps(value, default=str) if isinstance(value, dict) else str(value)
