"""Tables that are damaged at random: bytes flipped, cut, repeated or put in."""

from __future__ import annotations

import gzip
import io
import json
import random
from collections.abc import Callable

import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq

ROWS = [
    {"region": r, "uses": u, "ms": 1.5 * i, "on": i % 3 == 0, "note": 'a "b", c'}
    for i, (r, u) in enumerate([("EU", ["mail"]), ("US", []), ("EU", ["mail", "maps"])] * 9)
]


def _csv() -> bytes:
    lines = [f'{r["region"]};{"|".join(r["uses"])};{r["ms"]};{r["on"]};"a ""b"", c"' for r in ROWS]
    return "\r\n".join(["region;uses;ms;on;note", *lines]).encode()


def _parquet() -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(ROWS), out)
    return out.getvalue()


def _excel() -> bytes:
    book, out = openpyxl.Workbook(), io.BytesIO()
    book.active.append(list(ROWS[0]))
    for row in ROWS:
        book.active.append([*map(str, row.values())])
    book.save(out)
    return out.getvalue()


SOURCES: dict[str, Callable[[], bytes]] = {
    "table.csv": _csv,
    "table.csv.gz": lambda: gzip.compress(_csv()),
    "wide.txt": lambda: _csv().decode().encode("utf-16"),
    "table.parquet": _parquet,
    "table.jsonl": lambda: "\n".join(map(json.dumps, ROWS)).encode(),
    "table.json": lambda: json.dumps(ROWS).encode(),
    "table.xlsx": _excel,
    "metrics.yaml": lambda: b"a:\n  b:\n    type: labeled_counter\n    labels: [x, y]\n",
    "schema.json": lambda: b'{"properties": {"a": {"enum": ["x", "y"]}, "b": {"type": "integer"}}}',
}
_PIECES = (
    b"\0",
    b'"',
    b";",
    b",",
    b"\n",
    b"\r",
    b"\xff",
    b"\xed\xa0\x80",
    b"NaN",
    b"[" * 3000,
    b"9" * 5000,
)


def damaged(raw: bytes, dice: random.Random) -> bytes:
    for _ in range(dice.randint(1, 4)):
        a, b = sorted(dice.randrange(len(raw) + 1) for _ in range(2))
        b = min(b, a + dice.choice((1, 8, 200)))
        kind = dice.randrange(5)
        if kind == 0:
            raw = raw[:a]
        elif kind == 1:
            raw = raw[:a] + raw[b:]
        elif kind == 2:
            raw = raw[:b] + raw[a:]
        elif kind == 3:
            raw = raw[:a] + dice.choice(_PIECES) + raw[a:]
        else:
            raw = raw[:a] + dice.randbytes(b - a) + raw[b:]
    return raw
