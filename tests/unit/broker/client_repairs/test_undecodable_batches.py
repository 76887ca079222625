"""Check that our decoder continues after a record batch that kafka-python cannot decode."""

from __future__ import annotations

import pytest
from kafka import TopicPartition
from kafka import errors as kafka_errors
from kafka.consumer.fetcher import Fetcher
from kafka.record.memory_records import MemoryRecords

from calmstream.broker.kafka.client_repairs.consumers import FetchedRecords
from tests.support.batches import CONTROL, GZIP, Row, batch, frame

WHERE = TopicPartition("t", 0)

BAD_NAME = batch([Row(b"v", b"k", [(b"\xff\xfe", b"x")])])
"""A batch of one record with a header name that is not UTF-8."""


def test_without_the_repair_the_client_stays_at_a_header_name_that_is_not_utf_8() -> None:
    """Check that the fault is still there. If it is not, the repair may be superfluous."""
    for _ in range(2):  # it asks for the same bytes again
        fetched = Fetcher.PartitionRecords(0, WHERE, MemoryRecords(BAD_NAME))
        with pytest.raises(kafka_errors.CorruptRecordError):
            fetched.take(10)
        assert fetched.next_fetch_offset == 0, (
            "kafka-python is repaired; check the other faults in undecodable_batches.py too"
        )


def test_our_decoder_continues_after_such_a_header_name() -> None:
    drained: list[FetchedRecords] = []
    fetched = FetchedRecords(0, WHERE, MemoryRecords(BAD_NAME), on_drain=drained.append)
    (chunk,) = fetched.take(10)
    (record,) = chunk.records()
    assert (record.value, fetched.next_fetch_offset) == (b"v", 1)
    assert not fetched.take(10)
    assert drained == [fetched]


DAMAGED = frame(b"no records", 3, base_offset=7)
LOG = (
    batch([Row(b"%d" % i) for i in range(5)])
    + batch([Row(b"5"), Row(b"6")], GZIP, base_offset=5)
    + DAMAGED
    + batch([], attributes=CONTROL, base_offset=10, last_delta=0)
    + batch([Row(b"11")], base_offset=11)
)
"""Seven records, a damaged batch of three, a control batch without records, one more record."""


@pytest.mark.parametrize("limit", [1, 2, 3, 5, 9, 20])
def test_the_client_takes_records_in_portions(limit: int) -> None:
    fetched = FetchedRecords(0, WHERE, MemoryRecords(LOG))
    found: list[tuple[int, bool]] = []
    while fetched:
        portion = fetched.take(limit)
        records = [record for chunk in portion for record in chunk.records()]
        assert len(portion) == len(records) <= limit
        if len(records) == limit:
            assert fetched.next_fetch_offset == records[-1].offset + 1
        found += [(record.offset, record.damage is not None) for record in records]
    assert found == [*((i, False) for i in range(7)), (9, True), (11, False)]
    assert fetched.next_fetch_offset == 12


def test_a_wrong_checksum_is_an_error_only_when_nothing_stands_before_it() -> None:
    spoilt = bytearray(LOG)
    spoilt[-1] ^= 1
    fetched = FetchedRecords(0, WHERE, MemoryRecords(bytes(spoilt)))
    assert len(fetched.take(100)) == 8
    assert not fetched
    again = FetchedRecords(11, WHERE, MemoryRecords(bytes(spoilt)))
    with pytest.raises(kafka_errors.CorruptRecordError):
        again.take(100)
    assert (again.next_fetch_offset, bool(again)) == (11, False)
