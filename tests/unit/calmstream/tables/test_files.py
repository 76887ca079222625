from __future__ import annotations

import gzip
import io
import json
import zipfile
from pathlib import Path

import cramjam
import numpy as np
import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from calmstream.common.errors import InvalidInput
from calmstream.tables.dictionaries import read_dictionary
from calmstream.tables.reading import ReadingOptions
from calmstream.tables.records import read_table, read_texts

ROWS = [
    {"region": "EU", "uses": ["mail"], "ms": 1.5, "on": True},
    {"region": "US", "uses": [], "ms": 2.0, "on": False},
    {"region": "EU", "uses": ["mail", "maps"], "ms": None, "on": True},
    {"region": "EU", "uses": ["maps"], "ms": 2.0, "on": False},
] * 4


def parquet() -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(ROWS), out)
    return out.getvalue()


def arrow() -> bytes:
    table, out = pa.Table.from_pylist(ROWS), io.BytesIO()
    with pa.ipc.new_file(out, table.schema) as writer:
        writer.write_table(table)
    return out.getvalue()


def json_lines() -> bytes:
    return "\n".join(map(json.dumps, ROWS)).encode()


def workbook() -> bytes:
    book, out = openpyxl.Workbook(), io.BytesIO()
    book.active.title = "About"
    sheet = book.create_sheet("Data")
    sheet.append(["region", "uses", "ms", "on"])
    for row in ROWS:
        sheet.append([row["region"], ";".join(row["uses"]), row["ms"], row["on"]])
    book.save(out)
    return out.getvalue()


def csv() -> bytes:
    lines = ["region,uses,ms,on"]
    for row in ROWS:
        ms = "" if row["ms"] is None else f"{row['ms']:g}"
        lines.append(f"{row['region']},{'|'.join(row['uses'])},{ms},{str(row['on']).lower()}")
    return "\r\n".join(lines).encode()


FORMS = {
    "table.parquet": parquet,
    "table.arrow": arrow,
    "table.jsonl": json_lines,
    "table.xlsx": workbook,
    "table.csv": csv,
    "table.csv.gz": lambda: gzip.compress(csv()),
    "table.csv.zst": lambda: bytes(cramjam.zstd.compress(csv())),
    "table.marked": lambda: b"\xef\xbb\xbf" + csv(),
    "table.mixed": lambda: csv().replace(b"\r\n", b"\n", 5),
    "table.mac": lambda: csv().replace(b"\r\n", b"\r"),
}


@pytest.mark.parametrize("name", FORMS)
def test_every_form_of_a_table_is_read_alike(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(FORMS[name]())
    table = read_table(path)
    assert [column.entry for column in table.columns] == [
        {"name": "region", "labels": ["EU", "US"]},
        {"name": "uses", "kind": "choices", "options": ["mail", "maps"]},
        {"name": "ms", "labels": ["1.5", "2", "missing"]},
        {"name": "on", "labels": ["false", "true"]},
    ]
    assert table.codes[:3].tolist() == [[0, 1, 0, 0, 1], [1, 0, 0, 1, 0], [0, 1, 1, 2, 1]]
    assert (read_table(path, domain=table.domain).codes == table.codes).all()


def written(tmp_path: Path, raw: bytes | str, name: str = "table.csv") -> Path:
    path = tmp_path / name
    path.write_bytes(raw.encode() if isinstance(raw, str) else raw)
    return path


def far_value(attributes: str) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as book:
        book.writestr("xl/worksheets/sheet1.xml", f'<c r="XFD1048576"{attributes}><v>1</v></c>')
    return out.getvalue()


BAD = {
    "empty": ("", "the file has no records"),
    "only a header": ("a,b\n", "a header, but no records"),
    "a short record": ("a,b\n0,1\n1,1\n1\n", "line 4: 1 cell, where others have 2; mend the line"),
    "a long record": ("a,b\n0,1,2\n1,0\n1,1\n", "line 2: 3 cells, where others have 2; mend"),
    "an open quote": ('a,b\n0,"1\n1,0\n', "a quote is not closed before the end of the file"),
    "text after a quote": ('a,b\n0,"x"y\n1,0\n', "line 2: text after a closing quote"),
    "a database": (b"SQLite format 3\0", "zero characters: this is no text; save"),
    "cut gzip": (gzip.compress(b"a,b\n0,1\n1,0\n" * 50)[:-12], "broken gzip: .*again"),
    "cut Parquet": (b"PAR1\x15\x04", "a broken Parquet or Arrow file"),
    "a broken workbook": (b"PK\x03\x04\x14", "a broken workbook"),
    "nothing usable": ("a\nx\nx\n", "no column can be used .a: every record has 'x'.; --columns"),
    "bad JSON lines": ('{"a":1}\n{"a":\n', "line 2, column 6: not JSON"),
    "numbers for objects": ('{"a":1}\n5\n', "line 2: expected an object"),
    "a number in a list": ('[\n{"a":1},\n\n5]', "record 2: expected an object"),
    "deep JSON": ('{"a":' + "[" * 100_000, "nested too deeply|not JSON"),
    "a value far away": (far_value(' t="n"'), "sheet1.xml has a value so far from the others"),
    "the same by Excel": (far_value(""), "sheet1.xml has a value so far from the others"),
    "ids for fields": (
        json.dumps([dict.fromkeys(map(str, range(20_001)), 1)]),
        "more than 20,000 different fields; .*let an id be a value",
    ),
    "a web page": ("<!DOCTYPE html><html>", "this is a document"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_files_are_refused_with_cause_and_place(tmp_path: Path, case: str) -> None:
    raw, message = BAD[case]
    path = written(tmp_path, raw)
    with pytest.raises(InvalidInput, match=message) as refusal:
        read_table(path)
    assert str(refusal.value).startswith(f"{path}: ")
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"columns": ["a", "price"]}, "there is no column 'price'; there are 'a', 'b'"),
        ({"columns": ["a", "a"]}, "unique"),
        ({"encoding": "klingon"}, "--encoding: there is no encoding 'klingon'"),
        ({"delimiter": "ab"}, "--delimiter: expected one character"),
        ({"choices": {"a": None}}, "--choices a: no separator found"),
    ],
)
def test_options_that_do_not_fit(tmp_path: Path, options: dict[str, object], message: str) -> None:
    path = written(tmp_path, "a,b\n0,x\n1,y\n0,y\n")
    with pytest.raises(InvalidInput, match=message):
        read_table(path, ReadingOptions(**options))  # type: ignore[arg-type]


SAID = {
    "a title": ("Report 2026\n\na,b\n0,x\n1,y\n", "1 line before the header, 'Report 2026'"),
    "decimal commas": ("a;b\n1,5;x\n2,5;y\n", "separator: semicolon, as found"),
    "row names": ('"a" "b"\n'.replace(" ", "\t") + '"1"\t0\tx\n"2"\t1\ty\n', "has no name"),
    "spaces": ("a, b\n0, x\n1, y\n", "separator: with a space after it"),
    "a repeated header": ("a,b\n0,x\n1,y\na,b\n0,y\n", "left out: 1 line that repeats the header"),
    "backslashes": ('a,b\n0,"x \\"q\\", r"\n1,y\n', "a backslash before a quote"),
    "a padded title": ("Report,\n,\na,b\n0,x\n1,y\n", "left out: 'Report' above the header"),
    "a title and a wide table": (
        "Report,,\nc,a,b\n" + "p,0,x\nq,1,y\n" * 9,
        "left out: 'Report' above the header",
    ),
    "a stated separator": ("sep=;\na;b\n0;x\n1;y\n", "left out: the line 'sep=;'"),
    "no name": ("a,\n0,x\n1,y\n", "columns without a name are called 'column 2'"),
}


@pytest.mark.parametrize("case", SAID)
def test_what_was_found_out_is_said(tmp_path: Path, case: str) -> None:
    raw, said = SAID[case]
    table = read_table(written(tmp_path, raw))
    assert any(said in line for line in table.said), table.said
    assert table.codes[:2, -2:].tolist() == [[0, 0], [1, 1]]


def test_one_column_of_a_sheet_is_no_list_of_titles(tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    for row, text in enumerate(["job", *["nurse", "baker"] * 9], 1):
        book.active.cell(row, 3, text)
    book.save(tmp_path / "table.xlsx")
    assert read_table(tmp_path / "table.xlsx").domain.names == ("job",)


def test_fields_that_are_lists_in_some_records_only(tmp_path: Path) -> None:
    rows = [{"v": 1}, {"v": ["1", "2"]}, {"v": None}, {"v": [["2"], {"a": "z"}]}, {"v": True}]
    raw = json.dumps({"data": [{**row, "b": "xy"[i % 2]} for i, row in enumerate(rows)]})
    path = written(tmp_path, raw, "table.json")
    assert read_dictionary(path) is None
    table = read_table(path)
    options = ["v=1", "v=2", 'v=["2"]', "v=true", 'v={"a": "z"}']
    assert list(table.domain.names) == [*options, "b"]
    assert table.codes[:, :5].tolist() == [
        [1, 0, 0, 0, 0],
        [1, 1, 0, 0, 0],
        [0, 0, 0, 0, 0],
        [0, 0, 1, 0, 1],
        [0, 0, 0, 1, 0],
    ]


def test_cells_are_named_by_their_line(tmp_path: Path) -> None:
    path = written(tmp_path, 'a,b\n0,"x\nx"\n1,y\n0,z\n')
    known = read_table(written(tmp_path, 'a,b\n0,"x\nx"\n1,y\n', "known.csv")).domain
    with pytest.raises(InvalidInput, match="line 5: 'b' has no label 'z'; it has"):
        read_table(path, domain=known)
    path = written(tmp_path, 'a,b\n0,"x\nx"\n,y\n')
    with pytest.raises(InvalidInput, match=r"line 4: 'a' says nothing, .*--missing drop"):
        read_table(path, domain=known)


def test_bit_masks(tmp_path: Path) -> None:
    path = tmp_path / "bits.npz"
    names = np.array(["x", "y", "z"])
    np.savez_compressed(path, records=np.array([0b101, 0b010], np.uint32), names=names)
    assert read_table(path, ReadingOptions(columns=["z", "y"])).codes.tolist() == [[1, 0], [0, 1]]
    np.savez(path, records=np.array([4], np.uint8), names=np.array(["x", "y"]))
    with pytest.raises(InvalidInput, match="2 names do not fit"):
        read_table(path)
    np.savez(path, records=np.zeros(3, np.int64))
    with pytest.raises(InvalidInput, match="one unsigned integer per user"):
        read_table(path)


def test_the_public_adult_table(shared: Path) -> None:
    table = read_table(shared / "data" / "adult.csv.gz")
    assert table.codes.shape == (32_561, 15)
    kinds = {column.column.name: (column.entry or {}).get("kind") for column in table.columns}
    assert {name for name, kind in kinds.items() if kind == "number"} == {
        "age", "fnlwgt", "capital-gain", "capital-loss", "hours-per-week",
    }  # fmt: skip


def test_raw_texts_come_as_they_are_whatever_one_cell_holds(tmp_path: Path) -> None:
    raw = b"id,job\nu1,nurse\nu2," + b"x" * 200_000 + b"\nu3,\xff\xfe\0\nu4,baker\n"
    texts = read_texts(written(tmp_path, raw))
    assert texts["id"] == ["u1", "u2", "u3", "u4"]
    assert texts["job"][1] == "x" * 200_000
    assert texts["job"][2] == "\ufffd\ufffd\0"
    with pytest.raises(InvalidInput, match="no column 'name'"):
        read_texts(written(tmp_path, raw), ["name"])
    with pytest.raises(InvalidInput, match="none twice"):
        read_texts(written(tmp_path, "a,a\n1,2\n"))
