"""Check the decoder of record batches.

Whatever senders encode is decoded unchanged; a batch that cannot be decoded gives one result that
says so.
"""

from __future__ import annotations

import gzip
import struct
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record import MemoryRecords, MemoryRecordsBuilder

from calmstream.broker.record_batches import CorruptBatch, decode_batches
from calmstream.broker.record_batches.codecs import MAX_BYTES
from calmstream.broker.record_batches.decode import MAX_RECORDS
from calmstream.broker.records import MAX_HEADERS
from calmstream.broker.transport import Partition, Record
from tests.support.batches import (
    APPEND_TIME,
    CODECS,
    CONTROL,
    GZIP,
    LZ4,
    SNAPPY,
    ZSTD,
    Row,
    batch,
    compress,
    encode_row,
    encode_rows,
    frame,
    java_snappy,
    sized,
    varint,
)

WHERE = Partition("t", 3)
ROWS = [Row(b"%d" % i, b"key") for i in range(5)]
PLAIN = encode_rows(ROWS)


def read(data: bytes, start: int = 0) -> list[Record]:
    return list(records_of(data, start))


def records_of(data: bytes, start: int = 0) -> Iterator[Record]:
    for piece in decode_batches(WHERE, data, start):
        if piece.chunk is not None:
            yield from piece.chunk.records()


def only(data: bytes) -> Record:
    (record,) = read(data)
    return record


def record_of(body: bytes) -> bytes:
    return varint(len(body)) + body


def body_of(
    *, key: bytes = sized(b"k"), value: bytes = sized(b"v"), rest: bytes = b"\x00"
) -> bytes:
    return record_of(b"\x00" + varint(0) + varint(0) + key + value + rest)


rows = st.lists(
    st.builds(
        Row,
        value=st.none() | st.binary(max_size=200),
        key=st.none() | st.binary(max_size=20),
        headers=st.lists(st.tuples(st.binary(max_size=5), st.none() | st.binary(max_size=5))),
        time_delta=st.integers(-(1 << 40), 1 << 40),
    ),
    min_size=1,
    max_size=30,
)


@settings(max_examples=150, deadline=None)
@given(rows=rows, codec=st.sampled_from(sorted(CODECS.values())), base=st.integers(0, 1 << 40))
def test_what_a_sender_encodes_comes_back(rows: list[Row], codec: int, base: int) -> None:
    got = read(batch(rows, codec, base_offset=base, first_time=1000, epoch=7))
    assert [(r.key, r.value, r.timestamp) for r in got] == [
        (row.key, row.value, 1000 + row.time_delta) for row in rows
    ]
    assert [r.offset for r in got] == [base + i for i in range(len(rows))]
    assert not any(r.append_time or r.damage for r in got)
    for record, row in zip(got, rows, strict=True):
        expected = tuple((n.decode("utf-8", "replace"), c or b"") for n, c in row.headers)
        assert record.headers == (expected if len(expected) <= MAX_HEADERS else ())


@pytest.mark.parametrize("count", [1, 7, 8, 9, 300])
@pytest.mark.parametrize("varied", [False, True])
def test_batches_of_the_clients_own_encoder_decode_as_by_its_own_decoder(
    count: int, varied: bool
) -> None:
    data, offset = b"", 0
    for _ in range(3):
        builder = MemoryRecordsBuilder(2, 0, 1 << 30, offset=offset)
        for i in range(count):
            value = b"v" * (i * 7 % 200 if varied else 90)
            headers = [("h", b"x")] if varied and i % 3 == 0 else []
            builder.append(timestamp=500 + i, key=b"k%d" % (i % 10), value=value, headers=headers)
        builder.close()
        data += bytes(builder.buffer())
        offset += count
    theirs = [
        (r.offset, r.timestamp, r.key, r.value, tuple(r.headers))
        for one in MemoryRecords(data)
        for r in one
    ]
    ours = [(r.offset, r.timestamp, r.key, r.value, r.headers) for r in read(data)]
    assert ours == theirs
    assert len(ours) == 3 * count


def test_the_brokers_time_counts_for_all_records_of_a_batch() -> None:
    data = batch(ROWS, attributes=APPEND_TIME, first_time=5, max_time=77)
    assert {(r.timestamp, r.append_time) for r in read(data)} == {(77, True)}


@pytest.mark.parametrize(
    "section",
    [b"", varint(3) + b"\xff\xff", varint(1 << 30), varint(-4), varint(1) + varint(-1) + b"\x00"],
)
def test_damaged_headers_do_no_harm_to_their_record(section: bytes) -> None:
    record = only(frame(body_of(rest=section), 1))
    assert (record.key, record.value, record.headers, record.damage) == (b"k", b"v", (), None)


def test_many_headers_are_left_out() -> None:
    assert len(only(batch([Row(b"v", b"k", [(b"h", b"")] * MAX_HEADERS)])).headers) == MAX_HEADERS
    assert only(batch([Row(b"v", b"k", [(b"h", b"")] * (MAX_HEADERS + 1))])).headers == ()


# What is wrong, the payload, the stated number of records, header fields.
DAMAGE: dict[str, tuple[bytes, int, dict[str, Any]]] = {
    "a codec that does not exist": (PLAIN, 5, {"codec": 5}),
    "another codec that does not exist": (PLAIN, 5, {"codec": 7}),
    "one record less than stated": (PLAIN, 6, {}),
    "one record more than stated": (PLAIN, 4, {}),
    "bytes behind the records": (PLAIN + b"\x00", 5, {}),
    "a record cut off": (PLAIN[:-1], 5, {}),
    "no records at all": (b"", 5, {}),
    "records where none are stated": (PLAIN, 0, {"last_delta": 4}),
    "a negative number of records": (PLAIN, -3, {"last_delta": 4}),
    "a negative record length": (varint(-9) + PLAIN, 6, {}),
    "a length without an end": (b"\xff" * 50, 5, {}),
    "a key beyond its record": (body_of(key=varint(100) + b"k"), 1, {}),
    "a value beyond its record": (body_of(value=varint(100) + b"v"), 1, {}),
    "a key of two gigabytes": (body_of(key=varint((1 << 31) - 1)), 1, {}),
    "a record without fields": (varint(0), 1, {}),
    "a record of one byte": (varint(1) + b"\x00", 1, {}),
    "an offset beyond the batch": (encode_row(Row(b"v", offset_delta=7), 0), 1, {}),
    "a negative offset": (encode_row(Row(b"v", offset_delta=-1), 0), 1, {}),
    "an offset twice": (encode_rows([Row(b"v", offset_delta=0)] * 2), 2, {}),
    "offsets that fall": (
        encode_rows([Row(b"v", offset_delta=1), Row(b"v", offset_delta=0)]),
        2,
        {},
    ),
    "more records than offsets": (PLAIN, 5, {"last_delta": 2}),
    "too many records": (encode_rows([Row(b"")] * (MAX_RECORDS + 1)), MAX_RECORDS + 1, {}),
    "a time of eleven bytes": (
        record_of(b"\x00" + b"\x80" * 10 + b"\x01" + varint(0) * 4),
        1,
        {},
    ),
    "an offset of five full bytes": (
        record_of(b"\x00\x00" + b"\xff" * 4 + b"\x7f" + varint(0) * 3),
        1,
        {},
    ),
    "an older format": (PLAIN, 5, {"magic": 1}),
    "the oldest format": (PLAIN, 5, {"magic": 0}),
    "a newer format": (PLAIN, 5, {"magic": 3}),
    "not gzip": (b"x" * 60, 5, {"codec": GZIP}),
    "not snappy": (b"x" * 60, 5, {"codec": SNAPPY}),
    "not lz4": (b"x" * 60, 5, {"codec": LZ4}),
    "not zstd": (b"x" * 60, 5, {"codec": ZSTD}),
    "gzip cut off": (gzip.compress(PLAIN)[:-4], 5, {"codec": GZIP}),
    "lz4 cut off": (compress(LZ4, PLAIN)[:-4], 5, {"codec": LZ4}),
    "zstd cut off": (compress(ZSTD, PLAIN)[:-4], 5, {"codec": ZSTD}),
    "snappy cut off": (compress(SNAPPY, PLAIN)[:-4], 5, {"codec": SNAPPY}),
    "a snappy stream cut off": (java_snappy(PLAIN)[:-4], 5, {"codec": SNAPPY}),
    "a snappy stream without blocks": (java_snappy(PLAIN)[:16], 5, {"codec": SNAPPY}),
    "a snappy block of no bytes": (java_snappy(PLAIN) + bytes(4), 5, {"codec": SNAPPY}),
    "a snappy block that claims two gigabytes": (b"\xff\xff\xff\xff\x07", 5, {"codec": SNAPPY}),
    "gzip with something behind it": (gzip.compress(PLAIN) + b"zz", 5, {"codec": GZIP}),
    "gzip of no records": (gzip.compress(b"\xff" * 99), 5, {"codec": GZIP}),
    "zstd of one record less": (compress(ZSTD, PLAIN), 6, {"codec": ZSTD}),
    "gzip of a bomb": (gzip.compress(bytes(MAX_BYTES + 1)), 1, {"codec": GZIP}),
    "lz4 of a bomb": (compress(LZ4, bytes(MAX_BYTES + 1)), 1, {"codec": LZ4}),
    "zstd of a bomb": (compress(ZSTD, bytes(MAX_BYTES + 1)), 1, {"codec": ZSTD}),
    "snappy of a bomb": (compress(SNAPPY, bytes(MAX_BYTES + 1)), 1, {"codec": SNAPPY}),
}
# Cut and bombs apart, what is wrong with plain records is wrong with compressed ones too.
PACKED = {
    f"{what}, in gzip": (gzip.compress(payload), count, {**stated, "codec": GZIP})
    for what, (payload, count, stated) in DAMAGE.items()
    if not stated.keys() & {"codec", "magic"}
}


@pytest.mark.parametrize("what", [*DAMAGE, *PACKED])
def test_a_damaged_batch_is_one_result_and_its_neighbours_are_read(what: str) -> None:
    payload, count, stated = (DAMAGE | PACKED)[what]
    raw = frame(payload, count, base_offset=10, max_time=44, epoch=2, **stated)
    last = 10 if stated.get("magic", 2) < 2 else 10 + max(0, stated.get("last_delta", count - 1))
    before = batch(ROWS, base_offset=1)
    after = batch(ROWS, base_offset=last + 1, epoch=2)
    got = read(before + raw + after)
    assert [r.offset for r in got] == [*range(1, 6), last, *range(last + 1, last + 6)]
    assert [r.damage is not None for r in got] == [False] * 5 + [True] + [False] * 5
    bad = got[5]
    assert bad.damage is not None
    assert (bad.key, bad.value, bad.headers) == (None, raw, ())
    if stated.get("magic", 2) >= 2:
        assert (bad.damage.first_offset, bad.damage.records, bad.timestamp) == (10, count, 44)
    assert bad.damage.why
    assert "\n" not in bad.damage.why


def test_reading_goes_on_behind_every_piece() -> None:
    data = (
        batch(ROWS, base_offset=0)
        + batch(ROWS[:1], base_offset=5, attributes=CONTROL)
        + frame(PLAIN, 6, base_offset=6)
        + batch(ROWS, GZIP, base_offset=12)
        + frame(b"", 0, base_offset=17, last_delta=9)
    )
    ends = [(p.chunk and bool(p.chunk.damage), p.next_offset) for p in decode_batches(WHERE, data)]
    assert ends == [(False, 6), (True, 12), (False, 17), (None, 27)]


def test_one_record_of_a_chunk_is_the_same_as_among_all() -> None:
    rows = [Row(b"v", b"k"), Row(None, b"k"), Row(b"w", None), Row(b"x", b"k", [(b"h", b"1")])]
    (piece,) = decode_batches(WHERE, batch(rows, base_offset=7))
    chunk = piece.chunk
    assert chunk is not None
    found = list(chunk.records())
    assert [(r.offset, r.key, r.value, r.headers) for r in found] == [
        (7, b"k", b"v", ()),
        (8, b"k", None, ()),
        (9, None, b"w", ()),
        (10, b"k", b"x", (("h", b"1"),)),
    ]
    assert [chunk.record(index) for index in range(4)] == found


def test_transaction_markers_are_passed_and_aborted_records_are_not() -> None:
    data = (
        batch(ROWS, base_offset=0, attributes=0x10, producer=(9, 0, 0))
        + frame(b"nothing that could be read", 1, base_offset=5, attributes=CONTROL | 0x10)
        + batch(ROWS, base_offset=6)
    )
    assert [r.offset for r in read(data)] == [*range(5), *range(6, 11)]


def test_compaction_leaves_gaps_and_empty_batches() -> None:
    kept = encode_rows([Row(b"a", offset_delta=2), Row(b"b", offset_delta=7)])
    data = frame(kept, 2, base_offset=100, last_delta=9) + frame(
        b"", 0, base_offset=110, last_delta=4
    )
    assert [r.offset for r in read(data)] == [102, 107]
    assert [p.next_offset for p in decode_batches(WHERE, data)] == [115]


def test_records_below_the_offset_asked_for_are_left_out() -> None:
    data = batch(ROWS, base_offset=0) + batch(ROWS, LZ4, base_offset=5)
    for start in range(11):
        assert [r.offset for r in read(data, start)] == [o for o in range(10) if o >= start]


def test_a_damaged_batch_is_returned_where_reading_begins_within_it() -> None:
    data = frame(PLAIN, 6, base_offset=4)
    assert [r.offset for r in read(data, 7)] == [9]
    assert read(data, 10) == []


def test_a_batch_cut_off_by_the_fetch_is_left_for_the_next_one() -> None:
    data = batch(ROWS, base_offset=0) + batch(ROWS, base_offset=5)
    for cut in range(len(data) // 2, len(data)):
        assert [r.offset for r in read(data[:cut])] == list(range(5))
    assert read(b"") == read(b"\x00" * 11) == []


def test_a_wrong_checksum_is_a_fault_and_no_verdict() -> None:
    data = batch(ROWS) + batch(ROWS, base_offset=5, checksum=1)
    records: list[Record] = []
    with pytest.raises(CorruptBatch, match="checksum of the batch at offset 5"):
        records.extend(records_of(data))
    assert [r.offset for r in records] == list(range(5))


@pytest.mark.parametrize("length", [-100, -12, 0, 5])
def test_a_length_that_cannot_be_is_a_fault(length: int) -> None:
    with pytest.raises(CorruptBatch):
        read(struct.pack(">qi", 0, length) + b"\x00\x00\x00\x00\x02" + bytes(100))


def test_batches_of_several_leaders_are_distinguished() -> None:
    data = batch(ROWS, base_offset=0, epoch=3) + batch(ROWS, base_offset=5, epoch=4)
    assert [p.leader_epoch for p in decode_batches(WHERE, data)] == [3, 4]
