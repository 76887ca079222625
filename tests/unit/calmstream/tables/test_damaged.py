from __future__ import annotations

import gzip
import json
import random
from pathlib import Path

import pytest

from calmstream.common.errors import InvalidInput
from calmstream.tables.dictionaries import read_dictionary
from calmstream.tables.records import read_table
from tests.unit.calmstream.tables.test_files import FORMS, ROWS

LINES = [f'{r["region"]};{"|".join(r["uses"])};{r["ms"]};{r["on"]};"a ""b"", c"' for r in ROWS]
CSV = "\r\n".join(["region;uses;ms;on;note", *LINES])
SOURCES = {
    "quoted.csv": CSV.encode(),
    "quoted.csv.gz": gzip.compress(CSV.encode()),
    "wide.txt": CSV.encode("utf-16"),
    **{name: FORMS[name]() for name in ("table.parquet", "table.jsonl", "table.xlsx")},
    "table.json": json.dumps(ROWS).encode(),
    "metrics.yaml": b"a:\n  b:\n    type: labeled_counter\n    labels: [x, y]\n",
    "schema.json": b'{"properties": {"a": {"enum": ["x", "y"]}, "b": {"type": "integer"}}}',
}
PIECES = [b"\0", b'"', b";", b",", b"\n", b"\r", b"\xff", b"\xed\xa0\x80", b"NaN"]
PIECES += [b"[" * 3000, b"9" * 5000]


def damaged(raw: bytes, dice: random.Random) -> bytes:
    for _ in range(dice.randint(1, 4)):
        a, b = sorted(dice.randrange(len(raw) + 1) for _ in range(2))
        b = min(b, a + dice.choice((1, 8, 200)))
        cut, gap, twice = raw[:a], raw[:a] + raw[b:], raw[:b] + raw[a:]
        added = raw[:a] + dice.choice(PIECES) + raw[a:]
        flipped = raw[:a] + dice.randbytes(b - a) + raw[b:]
        raw = dice.choice((cut, gap, twice, added, flipped))
    return raw


@pytest.mark.parametrize("name", SOURCES)
def test_damaged_tables_are_read_or_refused_in_one_line(tmp_path: Path, name: str) -> None:
    dice = random.Random(name)
    messages = []
    for i in range(30):
        path = tmp_path / f"{i}-{name}"
        path.write_bytes(damaged(SOURCES[name], dice))
        try:
            if read_dictionary(path) is None:
                table = read_table(path)
                assert (read_table(path, domain=table.domain).codes == table.codes).all()
        except InvalidInput as error:
            messages.append(str(error).removeprefix(f"{path}: "))
    assert not [message for message in messages if "\n" in message or str(tmp_path) in message]
    assert messages
