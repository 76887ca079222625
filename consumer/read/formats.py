"""Answers as bytes for programs: JSON, CSV and Arrow."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Mapping
from itertools import product
from typing import Any

import orjson

from calmstream.common.errors import InvalidInput
from calmstream.consumer.read.answer import Answer
from calmstream.consumer.read.ranges import Windows
from calmstream.estimators.plan import Plan


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
    }


def window_range(plan: Plan, windows: Windows) -> dict[str, Any]:
    """Return windows with their times, in seconds since the epoch, as one JSON object."""
    return {
        "first": windows.first,
        "last": windows.last,
        "total": windows.total,
        "start": plan.window_start(windows.first) // 1000,
        "end": plan.window_end(windows.last) // 1000,
    }


def rows(answer: Answer) -> Iterator[tuple[Any, ...]]:
    """Yield the labels of each cell, its value, and its standard error."""
    cells = zip(answer.table.ravel().tolist(), answer.stderr.ravel().tolist(), strict=True)
    for labels, (value, stderr) in zip(product(*answer.labels), cells, strict=True):
        yield *labels, value, stderr


def as_json(plan: Plan, answer: Answer) -> bytes:
    """Return one object and a line feed."""
    return orjson.dumps(document(plan, answer)) + b"\n"


def as_csv(_plan: Plan, answer: Answer) -> bytes:
    """Return a header and one line per cell; labels that a spreadsheet would execute are quoted."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*map(harmless, answer.attributes), "value", "stderr", "flags"])
    for row in rows(answer):
        writer.writerow([*map(harmless, row[:-2]), *row[-2:], " ".join(answer.flags)])
    return out.getvalue().encode()


def harmless(text: str) -> str:
    """Return a text that no spreadsheet takes for a formula."""
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t", "\r") else text


def as_arrow(plan: Plan, answer: Answer) -> bytes:
    """Return an Arrow stream of one table; the JSON object without cells is its metadata."""
    try:
        import pyarrow as pa
    except ImportError:
        raise InvalidInput(
            "--format arrow needs the package pyarrow, which is not installed: "
            "pip install 'calmstream[service]'"
        ) from None
    about = document(plan, answer)
    cells = {name: about.pop(name) for name in ("table", "stderr")}
    columns = list(zip(*(row[:-2] for row in rows(answer)), strict=True))
    names = [*answer.attributes, "value", "stderr"]
    arrays = [pa.array(column).dictionary_encode() for column in columns]
    arrays += [pa.array(cells["table"]), pa.array(cells["stderr"])]
    table = pa.Table.from_arrays(arrays, names=names)
    table = table.replace_schema_metadata({"calmstream": orjson.dumps(about)})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    found: bytes = sink.getvalue().to_pybytes()
    return found


Format = Callable[[Plan, Answer], bytes]

FORMATS: Mapping[str, Format] = {"json": as_json, "csv": as_csv, "arrow": as_arrow}
"""How an answer becomes bytes, by the name of the format."""
