"""Check that the records of a paused partition are returned after the pause."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from kafka import TopicPartition
from kafka.consumer.fetcher import CompletedFetch, Fetcher
from kafka.consumer.subscription_state import SubscriptionState

from calmstream.broker.kafka.client_repairs.consumers import return_parked_records, use_own_decoder
from tests.support.batches import Row, batch

A, B, C = (TopicPartition(topic, 0) for topic in "abc")


class Consumer:
    """A consumer without a connection."""

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
    """Check that the fault is still there. If it is not, delete the repair and this test."""
    consumer = parked(repaired=False)
    for _ in range(5):
        consumer.answer(B, 1)
        assert consumer.take(4) == {"b": 1}


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
