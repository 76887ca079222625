"""Answers as bytes for programs: JSON, CSV and Arrow."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import orjson

from calmstream.consumer.read.history import Answer
from calmstream.consumer.read.ranges import Windows
from calmstream.estimators.plan import Plan

if TYPE_CHECKING:
    import pyarrow as pa


def document(plan: Plan, answer: Answer) -> dict[str, Any]:
    """Return an answer as one JSON object; cells row-major, the last attribute fastest."""
    return {
        "plan": plan.digest,
        "attributes": list(answer.attributes),
        "labels": [list(labels) for labels in answer.labels],
        "table": answer.table.ravel().tolist(),
        "stderr": answer.stderr.ravel().tolist(),
        "flags": list(answer.flags),
        "windows": [window_range(plan, windows) for windows in answer.windows],
        "reports": answer.reports,
        "revision": list(answer.revision),
        **answer.more(),
    }


def window_range(plan: Plan, windows: Windows) -> dict[str, Any]:
    """Return windows with their times, in seconds since the epoch, as one JSON object."""
    return {
        "first": windows.first,
        "last": windows.last,
        "total": windows.total,
        "current": windows.current,
        "start": plan.window_start(windows.first) // 1000,
        "end": plan.window_end(windows.last) // 1000,
    }


def as_json(plan: Plan, answer: Answer) -> bytes:
    return orjson.dumps(document(plan, answer)) + b"\n"


def as_csv(_plan: Plan, answer: Answer) -> bytes:
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


def as_arrow(plan: Plan, answer: Answer) -> bytes:
    """Return an Arrow stream of one table; the JSON object without cells is its metadata."""
    import pyarrow as pa

    table, out = _columns(plan, answer), pa.BufferOutputStream()
    with pa.ipc.new_stream(out, table.schema) as writer:
        writer.write_table(table)
    found: bytes = out.getvalue().to_pybytes()
    return found


def as_parquet(plan: Plan, answer: Answer) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    out = pa.BufferOutputStream()
    pq.write_table(_columns(plan, answer), out)
    found: bytes = out.getvalue().to_pybytes()
    return found


def _columns(plan: Plan, answer: Answer) -> pa.Table:
    about = document(plan, answer)
    del about["table"], about["stderr"]
    table: pa.Table = answer.to_arrow().drop_columns("flags")  # they are in the metadata
    return table.replace_schema_metadata({"calmstream": orjson.dumps(about)})


Format = Callable[[Plan, Answer], bytes]

FORMATS: Mapping[str, Format] = {
    "json": as_json,
    "csv": as_csv,
    "arrow": as_arrow,
    "parquet": as_parquet,
}
"""How an answer becomes bytes, by the name of the format."""
