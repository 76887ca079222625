"""Tables that are damaged at random: bytes flipped, cut, repeated or put in."""

from __future__ import annotations

import gzip
import io
import json
import random
from collections.abc import Callable
from pathlib import Path

import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from calmstream.common.errors import InvalidInput
from calmstream.tables.dictionaries import read_dictionary
from calmstream.tables.records import read_table

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
PIECES = (
    *(b"\0", b'"', b";", b",", b"\n", b"\r", b"\xff", b"\xed\xa0\x80"),
    *(b"NaN", b"[" * 3000, b"9" * 5000),
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
            raw = raw[:a] + dice.choice(PIECES) + raw[a:]
        else:
            raw = raw[:a] + dice.randbytes(b - a) + raw[b:]
    return raw


@pytest.mark.parametrize("name", SOURCES)
def test_damaged_tables_are_read_or_refused(tmp_path: Path, name: str) -> None:
    dice = random.Random(name)
    messages = []
    for i in range(30):
        path = tmp_path / f"{i}-{name}"
        path.write_bytes(damaged(SOURCES[name](), dice))
        try:
            if read_dictionary(path) is None:
                table = read_table(path)
                assert (read_table(path, domain=table.domain).codes == table.codes).all()
        except InvalidInput as error:
            messages.append(str(error).removeprefix(f"{path}: "))
    assert not [message for message in messages if "\n" in message or str(tmp_path) in message]
    assert messages
