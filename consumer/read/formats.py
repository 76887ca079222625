"""Answers as bytes for programs: JSON, CSV and Arrow."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import orjson

from calmstream.consumer.read.history import Answer

if TYPE_CHECKING:
    import pyarrow as pa


def as_json(answer: Answer) -> bytes:
    return orjson.dumps(answer.to_json()) + b"\n"


def as_csv(answer: Answer) -> bytes:
    """Return a header and one line per cell; labels that a spreadsheet would execute are quoted."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    data = answer.columns().data
    writer.writerow(map(harmless, data))
    for *labels, value, stderr, flags in zip(*data.values(), strict=True):
        writer.writerow([*map(harmless, labels), value, stderr, " ".join(flags)])
    return out.getvalue().encode()


def harmless(text: str) -> str:
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t", "\r") else text


def as_arrow(answer: Answer) -> bytes:
    """Return an Arrow stream of one table; the JSON object without cells is its metadata."""
    import pyarrow as pa

    table, out = _columns(answer), pa.BufferOutputStream()
    with pa.ipc.new_stream(out, table.schema) as writer:
        writer.write_table(table)
    found: bytes = out.getvalue().to_pybytes()
    return found


def as_parquet(answer: Answer) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    out = pa.BufferOutputStream()
    pq.write_table(_columns(answer), out)
    found: bytes = out.getvalue().to_pybytes()
    return found


def _columns(answer: Answer) -> pa.Table:
    about = answer.to_json()
    del about["table"], about["stderr"]
    table: pa.Table = answer.to_arrow().drop_columns("flags")  # they are in the metadata
    return table.replace_schema_metadata({"calmstream": orjson.dumps(about)})


FORMATS: Mapping[str, Callable[[Any], bytes]] = {
    "json": as_json,
    "csv": as_csv,
    "arrow": as_arrow,
    "parquet": as_parquet,
}
"""How an answer becomes bytes, by the name of the format; ``json`` takes a summary as well."""
