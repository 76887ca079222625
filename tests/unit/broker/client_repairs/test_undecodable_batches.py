"""Check that our decoder continues after a record batch that kafka-python cannot decode."""

from __future__ import annotations

import pytest
from kafka import TopicPartition
from kafka import errors as kafka_errors
from kafka.consumer.fetcher import Fetcher
from kafka.record.memory_records import MemoryRecords

from broker.kafka.client_repairs.undecodable_batches import FetchedRecords
from tests.support.batches import Row, batch

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
    (record,) = fetched.take(10)
    assert (record.value, fetched.next_fetch_offset, fetched.take(10)) == (b"v", 1, [])
    assert drained == [fetched]
