"""Check that readers of every transport continue after batches of a hostile or foreign sender.

The batches here are those that a current broker accepts. Batches that only older or other brokers
accept are tested in ``tests/integration/tally/test_planted_log.py`` and in the unit tests of the
decoder.
"""

from __future__ import annotations

import gzip

import pytest

from calmstream.broker.transport import Partition, Record
from tests.contract.conftest import Bench, until
from tests.support.batches import CODECS, GZIP, SNAPPY, Row, batch, encode_rows, frame, java_snappy

ROWS = [Row(b"%d" % i, b"key") for i in range(3)]


def around(bench: Bench, raw: bytes) -> tuple[Record, list[Record]]:
    """Append a batch between two good ones; what was read in its place, and everything."""
    where = Partition(bench.topic(message_timestamp_type="LogAppendTime"), 0)
    bench.append_batch(where, batch(ROWS))
    first = bench.append_batch(where, raw)
    last = bench.append_batch(where, batch(ROWS))
    records = bench.read(where)
    assert [r.offset for r in records if r.offset < first] == [0, 1, 2]
    assert [r.value for r in records if r.offset >= last] == [b"0", b"1", b"2"]
    assert first == 3
    assert all(r.append_time for r in records)
    (between,) = [r for r in records if first <= r.offset < last]
    return between, records


LONG = b"v" * 100_000
READABLE = {
    **{codec: (batch([Row(LONG, b"key")], number), LONG) for codec, number in CODECS.items()},
    "java": (frame(java_snappy(encode_rows([Row(LONG, b"key")])), 1, codec=SNAPPY), LONG),
    "a header name that is not UTF-8": (batch([Row(b"v", b"key", [(b"\xff\xfe", b"x")])]), b"v"),
}


@pytest.mark.parametrize("what", READABLE)
def test_every_codec_and_any_header_name_is_read_without_further_packages(
    bench: Bench, what: str
) -> None:
    raw, value = READABLE[what]
    record, _ = around(bench, raw)
    assert (record.key, record.value, record.damage) == (b"key", value, None)


def test_what_expands_beyond_the_bound_is_one_damaged_record(bench: Bench) -> None:
    raw = frame(gzip.compress(encode_rows([Row(bytes(40 << 20), b"key")])), 1, codec=GZIP)
    record, _ = around(bench, raw)
    assert (record.key, record.damage is None) == (None, False)
    assert record.value is not None
    assert record.value[61:] == raw[61:]  # the broker writes into the header


def test_more_records_than_are_read_are_one_damaged_record_at_the_last_of_them(
    bench: Bench,
) -> None:
    count = 70_000
    raw = frame(gzip.compress(encode_rows([Row(b"")] * count)), count, codec=GZIP)
    record, records = around(bench, raw)
    assert record.damage is not None
    assert (record.damage.first_offset, record.offset) == (3, 3 + count - 1)
    assert record.damage.records == count
    assert len(records) == 7


def test_group_members_read_past_damage_too(bench: Bench) -> None:
    where = Partition(bench.topic(message_timestamp_type="LogAppendTime"), 0)
    bench.append_batch(where, batch(ROWS))
    bench.append_batch(where, batch([Row(b"v", b"key", offset_delta=7)]))
    bench.append_batch(where, batch(ROWS))
    member = bench.broker.group_reader(bench.name("group"))
    member.subscribe([where.topic])
    until(lambda: member.poll(0.2) or member.assignment())
    member.seek(where, 0)
    member.resume([where])
    got: list[Record] = []
    until(lambda: got.extend(member.poll(0.2)) or len(got) == 7)
    assert [r.damage is not None for r in got] == [False] * 3 + [True] + [False] * 3
    assert member.position(where) == 7
    member.close(5)
