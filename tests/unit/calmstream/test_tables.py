"""Check local tables: which files are read, and which are refused in one line."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from calmstream.common.errors import InvalidInput
from calmstream.tables import read_table, read_texts

CSV = 'colour,constant,number,id\nred,x,10,0\n"dark, blue",x,9,1\nred,x,-1,2\n'


@pytest.fixture
def csv_file(tmp_path: Path) -> Path:
    rich = CSV + "".join(f"red,x,10,{i}\n" for i in range(3, 80))
    path = tmp_path / "table.csv"
    path.write_text(rich, "utf-8")
    return path


def test_default_columns_in_file_order_with_the_dropped_named(csv_file: Path) -> None:
    table = read_table(csv_file)
    assert table.domain.names == ("colour", "number")
    assert table.dropped == {"constant": 1, "id": 80}
    assert table.domain.attributes[0].labels == ("dark, blue", "red")
    assert table.domain.attributes[1].labels == ("-1", "9", "10")
    assert table.codes.dtype == np.uint16
    np.testing.assert_array_equal(table.codes[:3], [[1, 2], [0, 1], [1, 0]])


def test_labels_of_thousands_of_digits_are_in_their_order(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    long = "9" * 5000
    path.write_text(f"a\n{long}\n-{long}\n7\n1{long}\n", "utf-8")
    assert read_table(path).domain.attributes[0].labels == (f"-{long}", "7", long, f"1{long}")


def test_chosen_columns_keep_the_order_given(csv_file: Path) -> None:
    table = read_table(str(csv_file), columns=["id", "colour"])
    assert table.domain.names == ("id", "colour")
    assert table.domain.cardinalities == (80, 2)
    assert table.dropped == {}
    np.testing.assert_array_equal(table.codes[:3, 0], [0, 1, 2])


def test_the_first_attributes(csv_file: Path) -> None:
    assert read_table(csv_file, attributes=1).domain.names == ("colour",)
    assert read_table(csv_file, columns=["number", "colour"], attributes=1).codes.shape == (80, 1)


def test_gzip_whatever_the_name_and_a_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "table.data"
    path.write_bytes(gzip.compress(b"\xef\xbb\xbfa,b\r\n0,x\r\n1,y\r\n\r\n"))
    table = read_table(path)
    assert table.domain.names == ("a", "b")
    np.testing.assert_array_equal(table.codes, [[0, 0], [1, 1]])


BAD_CSV = {
    "empty": (b"", "the first line must name every column"),
    "only a header": (b"a,b\n", "a header, but no records"),
    "a nameless column": (b"a,\n0,1\n1,0\n", "must name every column"),
    "a column twice": (b"a,a\n0,1\n1,0\n", "none twice"),
    "a short record": (b"a,b\n0,1\n1\n", "line 3: 1 fields, the header has 2"),
    "a long record": (b"a,b\n0,1,2\n1,0\n", "line 2: 3 fields, the header has 2"),
    "a hole": (b"a,b\n0,1\n\n1,0\n", "record 2 is an empty line"),
    "an open quote": (b'a,b\n0,"1\n1,0\n', "line 3: unexpected end of data"),
    "not text": (b"a,b\n0,\xff\n", r"not UTF-8 text \(byte 6\); save it as CSV in UTF-8, or"),
    "Parquet": (b"PAR1\x15\x04", "this is a Parquet file; tables are CSV .* COPY"),
    "a workbook": (b"PK\x03\x04\x14", "a workbook such as XLSX; tables are CSV"),
    "JSON lines": (b'{"a":1,"b":2}\n{"a":2,"b":1}\n', "this is JSON; tables are CSV"),
    "UTF-16": ("a,b\n0,1\n".encode("utf-16"), "this is text in UTF-16; tables are CSV"),
    "cut gzip": (gzip.compress(b"a,b\n0,1\n1,0\n" * 50)[:-12], "broken gzip"),
    "nothing usable": (b"a\nx\nx\n", "no column has 2 to 64 distinct values"),
}


@pytest.mark.parametrize("case", BAD_CSV)
def test_bad_csv(tmp_path: Path, case: str) -> None:
    raw, message = BAD_CSV[case]
    path = tmp_path / "bad.csv"
    path.write_bytes(raw)
    with pytest.raises(InvalidInput, match=message) as refusal:
        read_table(path)
    assert str(path) in str(refusal.value)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"columns": ["colour", "price"]}, "no column 'price'; there are colour, constant"),
        ({"columns": ["constant"]}, "column 'constant' has 1 distinct values"),
        ({"columns": ["colour", "colour"]}, "unique"),
        ({"attributes": 3}, "3 attributes requested; there are 2"),
        ({"attributes": 0}, "0 attributes requested"),
    ],
)
def test_bad_choices(csv_file: Path, options: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        read_table(csv_file, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["missing.csv", "missing.npz"])
def test_a_missing_file(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidInput, match=f"{name}: No such file"):
        read_table(tmp_path / name)


def test_a_directory(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="Is a directory"):
        read_table(tmp_path)


def test_bit_masks(tmp_path: Path) -> None:
    path = tmp_path / "bits.npz"
    np.savez_compressed(path, records=np.array([0b101, 0b010], np.uint8))
    table = read_table(path, attributes=4)
    assert table.domain.names == ("a0", "a1", "a2", "a3")
    np.testing.assert_array_equal(table.codes, [[1, 0, 1, 0], [0, 1, 0, 0]])
    np.savez_compressed(
        path, records=np.array([0b101, 0b010], np.uint32), names=np.array(["x", "y", "z"])
    )
    named = read_table(path, columns=["z", "y"])
    assert named.domain.names == ("z", "y")
    np.testing.assert_array_equal(named.codes, [[1, 0], [0, 1]])


BAD_NPZ = {
    "no records": ({"other": np.zeros(3, np.uint8)}, "no array named records"),
    "signed": ({"records": np.zeros(3, np.int64)}, "one unsigned integer per user"),
    "a matrix": ({"records": np.zeros((3, 2), np.uint8)}, "one unsigned integer per user"),
    "nobody": ({"records": np.zeros(0, np.uint8)}, "one unsigned integer per user"),
    "bits without a name": (
        {"records": np.array([4], np.uint8), "names": np.array(["x", "y"])},
        "2 names do not fit",
    ),
    "too many names": (
        {"records": np.zeros(1, np.uint8), "names": np.array(list("abcdefghi"))},
        "9 names do not fit",
    ),
    "numbers for names": (
        {"records": np.zeros(1, np.uint8), "names": np.arange(3)},
        "non-empty strings",
    ),
    "objects": ({"records": np.array([{}, {}])}, "not a readable NPZ"),
}


@pytest.mark.parametrize("case", BAD_NPZ)
def test_bad_bit_masks(tmp_path: Path, case: str) -> None:
    arrays, message = BAD_NPZ[case]
    path = tmp_path / "bad.npz"
    np.savez(path, **arrays)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match=message) as refusal:
        read_table(path)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("raw", [b"", b"PK\x03\x04broken", b"a,b\n0,1\n"])
def test_what_is_no_npz(tmp_path: Path, raw: bytes) -> None:
    path = tmp_path / "bad.npz"
    path.write_bytes(raw)
    with pytest.raises(InvalidInput, match="not a readable NPZ"):
        read_table(path)


def test_unknown_attribute_of_bit_masks(tmp_path: Path) -> None:
    path = tmp_path / "bits.npz"
    np.savez(path, records=np.array([1], np.uint8))
    with pytest.raises(InvalidInput, match="no attribute 'x'; there are a0"):
        read_table(path, columns=["x"])


def test_the_public_adult_table(shared: Path) -> None:
    table = read_table(shared / "data" / "adult.csv.gz")
    assert table.codes.shape == (32_561, 10)
    assert table.dropped.keys() == {
        "age", "fnlwgt", "capital-gain", "capital-loss", "hours-per-week",
    }  # fmt: skip


def test_raw_texts_come_as_they_are_whatever_one_field_holds(tmp_path: Path) -> None:
    path = tmp_path / "raw.csv"
    path.write_bytes(b"id,job\nu1,nurse\nu2," + b"x" * 200_000 + b"\nu3,\xff\xfe\0\nu4,baker\n")
    texts = read_texts(path)
    assert texts["id"] == ["u1", "u2", "u3", "u4"]
    assert texts["job"][1] == "x" * 200_000
    assert texts["job"][2] == "\udcff\udcfe\0"
    # A table to learn a domain from is still refused for bytes that are no text.
    with pytest.raises(InvalidInput, match="not UTF-8"):
        read_table(path)
