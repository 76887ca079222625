"""Results as bytes for programs: tables of rows, and answers, in the same formats."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO

import orjson

if TYPE_CHECKING:
    import pyarrow as pa

    from calmstream.consumer.read.history import Answer
    from calmstream.consumer.read.summary import Summary

Write = Callable[["pa.Table"], object]


@contextmanager
def _csv(out: BinaryIO, schema: pa.Schema) -> Iterator[Write]:
    """Write CSV: lists are joined, and a spreadsheet executes no text."""
    import pyarrow as pa

    text = io.TextIOWrapper(out, encoding="utf-8", newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(map(harmless, schema.names))

    def cells(column: pa.ChunkedArray) -> Iterable[object]:
        values = column.to_pylist()
        return values if pa.types.is_primitive(column.type) else map(_text, values)

    def write(table: pa.Table) -> None:
        writer.writerows(zip(*map(cells, _plain(table).columns), strict=True))
        text.flush()

    yield write
    text.detach()


def _text(value: str | list[str]) -> str:
    return harmless(value if isinstance(value, str) else joined(value))


def harmless(text: str) -> str:
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t", "\r") else text


def joined(texts: Iterable[str]) -> str:
    """Join texts with ``|``, so that different cells have different names."""
    return "|".join(text.replace("\\", r"\\").replace("|", r"\|") for text in texts)


@contextmanager
def _lines(out: BinaryIO, _schema: pa.Schema) -> Iterator[Write]:
    yield lambda table: out.writelines(
        orjson.dumps(row) + b"\n" for row in _plain(table).to_pylist()
    )


def _plain(table: pa.Table) -> pa.Table:
    """Return a table without dictionaries: Python reads their values far more slowly."""
    import pyarrow as pa

    kinds = [f.type.value_type if pa.types.is_dictionary(f.type) else f.type for f in table.schema]
    return table.cast(pa.schema(zip(table.column_names, kinds, strict=True)))


@contextmanager
def _parquet(out: BinaryIO, schema: pa.Schema) -> Iterator[Write]:
    import pyarrow.parquet as pq

    with pq.ParquetWriter(out, schema, compression="zstd") as writer:
        yield writer.write_table


@contextmanager
def _arrow(out: BinaryIO, schema: pa.Schema) -> Iterator[Write]:
    import pyarrow as pa

    with pa.ipc.new_stream(out, schema) as writer:
        yield writer.write_table


WRITERS = {"csv": _csv, "json": _lines, "parquet": _parquet, "arrow": _arrow}
"""What writes tables of rows, by the name of the format."""


def _as_json(answer: Answer | Summary) -> bytes:
    return orjson.dumps(answer.to_json()) + b"\n"


def _as_rows(answer: Answer, form: str) -> bytes:
    """Return a row a cell; the JSON object without cells is the metadata of Arrow and Parquet."""
    table, out = answer.to_arrow(), io.BytesIO()
    if form == "csv":
        flags = [" ".join(flags) for flags in table["flags"].to_pylist()]
        table = table.drop_columns("flags").append_column("flags", [flags])
    else:
        about = answer.to_json()
        del about["table"], about["stderr"]
        table = table.drop_columns("flags").replace_schema_metadata(
            {"calmstream": orjson.dumps(about)}
        )
    with WRITERS[form](out, table.schema) as write:
        write(table)
    return out.getvalue()


FORMATS: Mapping[str, Callable[[Any], bytes]] = {
    "json": _as_json,
    **{form: partial(_as_rows, form=form) for form in ("csv", "arrow", "parquet")},
}
"""How an answer becomes bytes, by the name of the format; ``json`` takes a summary as well."""
