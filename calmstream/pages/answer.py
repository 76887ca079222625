"""Answers of ``calmstream query`` in all formats."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import orjson
from rich.console import Console
from rich.table import Table

from consumer.read.answer import Answer
from estimators.errors import InvalidInput
from estimators.plan import Plan


def document(plan: Plan, answer: Answer) -> dict[str, Any]:
    """Return an answer as one JSON object; cells row-major, the last attribute fastest."""
    return {
        "plan": plan.digest,
        "attributes": list(answer.attributes),
        "labels": [list(labels) for labels in answer.labels],
        "table": answer.table.ravel().tolist(),
        "stderr": answer.stderr.ravel().tolist(),
        "flags": list(answer.flags),
        "windows": [
            {
                "first": windows.first,
                "last": windows.last,
                "total": windows.total,
                "start": plan.window_start(windows.first) // 1000,
                "end": plan.window_end(windows.last) // 1000,
            }
            for windows in answer.windows
        ],
        "reports": answer.reports,
        "revision": list(answer.revision),
    }


def _rows(answer: Answer) -> Iterator[tuple[Any, ...]]:
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
    for row in _rows(answer):
        writer.writerow([*map(harmless, row[:-2]), *row[-2:], " ".join(answer.flags)])
    return out.getvalue().encode()


def harmless(text: str) -> str:
    """Return a text that no spreadsheet takes for a formula."""
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t", "\r") else text


def as_arrow(plan: Plan, answer: Answer) -> bytes:
    """Return an Arrow stream of one table; the JSON object without cells is its metadata.

    Raises:
        InvalidInput: pyarrow is not installed.
    """
    try:
        import pyarrow as pa
    except ImportError:
        raise InvalidInput(
            "--format arrow needs the package pyarrow, which is not installed: "
            "pip install 'calmstream[arrow]'"
        ) from None
    about = document(plan, answer)
    cells = {name: about.pop(name) for name in ("table", "stderr")}
    columns = list(zip(*(row[:-2] for row in _rows(answer)), strict=True))
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


def as_table(plan: Plan, answer: Answer) -> bytes:
    """Return a table for people, with what must be known about it above."""
    console = Console(file=io.StringIO(), width=120, highlight=False)
    with console.capture() as text:
        windows = " minus ".join(str(one) for one in answer.windows)
        console.print(
            f"{plan.name}-{plan.digest[:8]}: {windows}, {answer.reports:,} reports"
            + (f" · {', '.join(answer.flags)}" if answer.flags else ""),
            soft_wrap=True,
            markup=False,
        )
        shown = Table(box=None, pad_edge=False)
        for name in answer.attributes:
            shown.add_column(name, overflow="fold")
        change = "difference" in answer.flags
        shown.add_column("change" if change else "proportion", justify="right")
        shown.add_column("± 95 %", justify="right")
        for row in _rows(answer):
            sign = "+" if change else ""
            value, half = f"{100 * row[-2]:{sign}.2f} %", f"{196 * row[-1]:.2f}"
            shown.add_row(*(_plain(label) for label in row[:-2]), value, half)
        console.print(shown)
    return text.get().encode()


def _plain(label: str) -> str:
    return label.replace("[", r"\[")


FORMATS: dict[str, Callable[[Plan, Answer], bytes]] = {
    "table": as_table,
    "json": as_json,
    "csv": as_csv,
    "arrow": as_arrow,
}
"""How an answer becomes bytes, by the name of the format."""
