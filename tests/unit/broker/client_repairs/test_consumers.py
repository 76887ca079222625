"""Check that a consumer continues after a pause, and after what kafka-python cannot decode."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from kafka import TopicPartition
from kafka import errors as kafka_errors
from kafka.consumer.fetcher import CompletedFetch, Fetcher
from kafka.consumer.subscription_state import SubscriptionState
from kafka.record.memory_records import MemoryRecords

from calmstream.broker.kafka.client_repairs.consumers import (
    FetchedRecords,
    return_parked_records,
    use_own_decoder,
)
from tests.support.batches import CONTROL, GZIP, Row, batch, frame

A, B, C = (TopicPartition(topic, 0) for topic in "abc")


class Consumer:
    def __init__(self, repaired: bool) -> None:
        manager = SimpleNamespace(_net=None, cluster=None, broker_version=(4, 0))
        self._subscription = SubscriptionState()
        self._subscription.assign_from_user([A, B, C])
        self._fetcher = Fetcher(SimpleNamespace(_manager=manager), self._subscription, metrics=None)
        for where in (A, B, C):
            self._subscription.seek(where, 0)
        use_own_decoder(self)  # type: ignore[arg-type]
        if repaired:
            return_parked_records(self)  # type: ignore[arg-type]

    def answer(self, where: TopicPartition, records: int) -> None:
        """Let records arrive, from the present position of a partition on."""
        at = self._subscription.assignment[where].position.offset
        data = SimpleNamespace(
            error_code=0,
            high_watermark=at + records,
            records=batch([Row(b"v")] * records, base_offset=at),
            aborted_transactions=None,
            diverging_epoch=None,
            preferred_read_replica=-1,
            current_leader=None,
        )
        self._fetcher._completed_fetches.append(CompletedFetch(where, at, 12, data, None))

    def take(self, limit: int) -> dict[str, int]:
        """Return the number of records of each topic that a poll returns."""
        found: dict[Any, Any] = self._fetcher.fetched_records(limit)[0]
        return {where.topic: sum(map(len, chunks)) for where, chunks in found.items()}


def parked(repaired: bool) -> Consumer:
    """Return a consumer with a parked rest of A; all records of B were returned after that."""
    consumer = Consumer(repaired)
    consumer.answer(A, 9)
    assert consumer.take(4) == {"a": 4}
    consumer._subscription.pause(A)
    consumer.answer(B, 3)
    assert consumer.take(4) == {"b": 3}
    consumer._subscription.resume(A)
    return consumer


def test_without_the_repair_the_client_keeps_parked_records() -> None:
    consumer = parked(repaired=False)
    for _ in range(5):
        consumer.answer(B, 1)
        assert consumer.take(4) == {"b": 1}, "the fault is gone: delete return_parked_records"


def test_parked_records_are_returned_after_the_pause() -> None:
    consumer = parked(repaired=True)
    consumer.answer(B, 1)
    assert consumer.take(4) == {"a": 4}
    assert consumer.take(4) == {"a": 1, "b": 1}
    assert consumer.take(4) == {}
    assert consumer._subscription.assignment[A].position.offset == 9


@pytest.mark.parametrize("limit", [1, 2, 5])
def test_partitions_with_parked_records_take_turns(limit: int) -> None:
    consumer = parked(repaired=True)
    assert consumer.take(9) == {"a": 5}
    consumer.answer(C, 1000)
    assert consumer.take(1) == {"c": 1}
    consumer._subscription.pause(C)
    consumer.answer(B, 1000)
    assert consumer.take(limit) == {"b": limit}
    consumer._subscription.resume(C)
    assert [consumer.take(limit) for _ in range(4)] == 2 * [{"c": limit}, {"b": limit}]


WHERE = TopicPartition("t", 0)

BAD_NAME = batch([Row(b"v", b"k", [(b"\xff\xfe", b"x")])])
"""A batch of one record with a header name that is not UTF-8."""


def test_without_the_repair_the_client_stays_at_a_header_name_that_is_not_utf_8() -> None:
    for _ in range(2):  # it asks for the same bytes again
        fetched = Fetcher.PartitionRecords(0, WHERE, MemoryRecords(BAD_NAME))
        with pytest.raises(kafka_errors.CorruptRecordError):
            fetched.take(10)
        assert fetched.next_fetch_offset == 0, (
            "kafka-python is repaired; check the other faults of use_own_decoder too"
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
