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
from pathlib import Path
from typing import Any

import numpy as np

from calmstream.common.errors import InvalidInput
from calmstream.tables.delimited import MAX_COLUMNS, read_delimited
from calmstream.tables.encoding import decoded, unpacked
from calmstream.tables.header import clean, different, with_names
from calmstream.tables.table import ColumnBuilder, FileColumn, FileTable, Value, of_rows

_CELL = re.compile(rb'<c r="([A-Z]{1,3})([0-9]{1,7})"(?:[^>]*[^/>])?>')
_MAX_CELLS = 1 << 26  # of a sheet, from its first to its last value: the reader holds them all

# The beginning of JSON: an object, or a list that is empty or begins with one.
_JSON = re.compile(r'\s*(\{\s*["}]|\[\s*[{\]])')


def read_file(
    path: str | Path, *, delimiter: str | None, encoding: str | None, header_rows: int | None
) -> FileTable:
    try:
        raw = unpacked(Path(path).read_bytes())
    except OSError as error:
        raise InvalidInput(f"{error.strerror or error}") from None
    if raw.startswith((b"PAR1", b"ARROW1")):
        return _arrow(raw)
    if raw.startswith(b"PK\x03\x04") and Path(path).suffix == ".npz":
        return _bits(raw)
    if raw.startswith((b"PK\x03\x04", b"\xd0\xcf\x11\xe0")):
        return with_names(_workbook(raw), header_rows)
    if raw.lstrip().startswith((b"<", b"%PDF")):
        raise InvalidInput("this is a document (HTML, XML, PDF): save its table as CSV")
    text, said = decoded(raw, encoding)
    del raw
    if _JSON.match(text):
        return _json(text, said)
    table = read_delimited(text, delimiter)
    return with_names(replace(table, said=(*said, *table.said)), header_rows)


def _arrow(raw: bytes) -> FileTable:
    """Read Parquet or an Arrow file; fields of a record in a record get names such as a.b."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = []
    try:
        if raw.startswith(b"PAR1"):
            table = pq.read_table(BytesIO(raw))
        else:
            table = pa.ipc.open_file(BytesIO(raw)).read_all()
        while any(pa.types.is_struct(field.type) for field in table.schema):
            table = table.flatten()
        for name, column in zip(table.column_names, table.columns, strict=True):
            moments = pa.types.is_timestamp(column.type)  # Python holds no nanoseconds
            cells = column.cast(pa.string()) if moments else column
            columns.append(_column(name, cells.to_pylist()))
    except (OSError, ValueError, TypeError, KeyError, OverflowError, pa.ArrowException) as error:
        first = str(error).split("\n")[0]
        raise InvalidInput(f"a broken Parquet or Arrow file: {first}; write it again") from None
    return _named(columns, [])


def _column(name: str, cells: Iterable[Any]) -> FileColumn:
    builder = ColumnBuilder()
    builder.extend(map(text_of, cells))
    column = builder.column(name)
    if not any(isinstance(value, tuple) for value in column.values):
        return column
    # A field that is a list in some records is a list of one value in the others.
    return column.mapped([v if isinstance(v, tuple) else (v,) if v else () for v in column.values])


def _workbook(raw: bytes) -> FileTable:
    """Read the sheet of a workbook that has most rows."""
    import python_calamine

    _check_extent(raw)
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
    most = max((sum(map(bool, row)) for _, row in rows), default=0)
    while len(rows) > 1 and sum(map(bool, rows[0][1])) == 1 < most and len(rows[0][1]) > 2:
        said.append(f"left out: the title {''.join(rows.pop(0)[1])!r} above the table")
    if len(rows) < 2:
        raise InvalidInput("the workbook has no records")
    return of_rows(rows, said)


def _check_extent(raw: bytes) -> None:
    """Refuse a workbook in which one value is so far away that the cells before it fill memory."""
    with (
        suppress(zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, ValueError),
        zipfile.ZipFile(BytesIO(raw)) as archive,
    ):
        for name in archive.namelist():
            if name.startswith("xl/worksheets/") and name.endswith(".xml"):
                cells = set(_CELL.findall(archive.read(name)))
                columns = max((_number(letters) for letters, _ in cells), default=0)
                if columns * max((int(row) for _, row in cells), default=0) > _MAX_CELLS:
                    raise InvalidInput(
                        f"{name} has a value so far from the others that it spans more than "
                        f"{_MAX_CELLS:,} cells: delete that value, or save the sheet as CSV"
                    )


def _number(letters: bytes) -> int:
    number = 0
    for letter in letters:
        number = 26 * number + letter - 64
    return number


def _json(text: str, said: list[str]) -> FileTable:
    decode = json.JSONDecoder(
        parse_int=str, parse_constant=lambda _: None, object_hook=_flat
    ).decode
    line, unit = 1, "record" if _is_one_value(text) else "line"
    try:
        if unit == "record":
            found = list(enumerate(_records(decode(text), said), 1))
        else:
            found = []
            for line, part in enumerate(text.split("\n"), 1):
                if part.strip():
                    found.append((line, decode(part)))
    except json.JSONDecodeError as error:
        where = f"line {line + error.lineno - 1:,}, column {error.colno}"
        raise InvalidInput(
            f"{where}: not JSON, {error.msg}; mend it (JSON lines have one object a line)"
        ) from None
    except RecursionError:
        raise InvalidInput(
            "JSON that is nested too deeply; a record has fields and lists"
        ) from None
    return _objects(found, said, unit)


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


def _objects(found: Sequence[tuple[int, Any]], said: list[str], unit: str) -> FileTable:
    """Return the table of numbered objects; a field that an object lacks is empty."""
    names: dict[str, None] = {}
    for i, row in found:
        if not isinstance(row, dict):
            raise InvalidInput(f'{unit} {i:,}: expected an object such as {{"region": "EU"}}')
        names |= dict.fromkeys(row)
        if len(names) > MAX_COLUMNS:
            raise InvalidInput(
                f"more than {MAX_COLUMNS:,} different fields; a field is a column: let an id be a "
                "value, not the name of a field"
            )
    columns = [_column(name, (row.get(name) for _, row in found)) for name in names]
    return _named(columns, said, np.array([i for i, _ in found]) if unit == "line" else None)


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
    except (zipfile.BadZipFile, zlib.error, EOFError, ValueError, OSError, KeyError) as error:
        raise InvalidInput(f"not a readable NPZ file: {error}") from None
    if records.ndim != 1 or records.dtype.kind != "u":
        raise InvalidInput("records must be one unsigned integer per user")
    bits = 8 * records.dtype.itemsize
    names = [f"a{j}" for j in range(bits)] if names is None else names
    if len(names) > bits or (len(names) < bits and (records >> len(names)).any()):
        raise InvalidInput(f"{len(names)} names do not fit the {bits}-bit masks in use")
    # `taken` leaves out a value that no record has.
    columns = [
        FileColumn(name, ("0", "1"), ((records >> j) & 1).astype(np.int32)).taken(slice(None))
        for j, name in enumerate(names)
    ]
    return _named(columns, [])


def _named(columns: Sequence[FileColumn], said: list[str], lines: Any = None) -> FileTable:
    if not columns or not len(columns[0].places):
        raise InvalidInput("the file has no records")
    names = different([clean(c.name) or f"column {j}" for j, c in enumerate(columns, 1)], said)
    named = (replace(c, name=name) for c, name in zip(columns, names, strict=True))
    return FileTable(tuple(named), tuple(said), lines)


def text_of(value: Any) -> Value:
    """Return a typed value as a cell: a list as one, without what is missing in it."""
    if isinstance(value, (list, tuple)):
        return tuple(dict.fromkeys(_text(one) for one in value if not _is_missing(one)))
    return "" if _is_missing(value) else _text(value)


def _is_missing(value: Any) -> bool:
    return value is None or value != value  # noqa: PLR0124 - NaN


def _text(value: Any) -> str:  # noqa: PLR0911 - one for each type
    """Return whole numbers without a point, dates as ISO 8601, lists and objects as JSON."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode() if not value.isascii() else value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
    if isinstance(value, (date, time)):
        return value.isoformat()
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, (list, tuple, dict)):
        return json.dumps(value, ensure_ascii=False, default=str)
    return str(value)
