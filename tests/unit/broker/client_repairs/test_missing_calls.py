"""Check operations for which the Kafka client has no public function."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka import errors as kafka_errors
from kafka.consumer.subscription_state import SubscriptionState

from calmstream.broker.kafka.client_repairs.missing_calls import (
    force_close,
    partition_state,
)

WHERE = TopicPartition("t", 0)


def new_producer() -> tuple[Any, list[str]]:
    """Return a producer whose flush runs out of time, and what happens to its thread."""
    calls: list[str] = []

    def flush(_timeout: float) -> None:
        raise kafka_errors.KafkaTimeoutError

    sender = SimpleNamespace(
        join=lambda *_: calls.append("join"),
        force_close=lambda: calls.append("force_close"),
        initiate_close=lambda: calls.append("initiate_close"),
        is_alive=lambda: True,
    )
    producer = SimpleNamespace(
        _sender=sender,
        _closed=False,
        _lock=threading.Lock(),
        flush=flush,
        _unregister_cleanup=lambda: None,
    )
    return producer, calls


def test_without_the_repair_the_producers_thread_survives_a_close_that_runs_out_of_time() -> None:
    producer, calls = new_producer()
    with pytest.raises(kafka_errors.KafkaTimeoutError):
        KafkaProducer.close(producer, timeout=0.1)
    assert calls == [], "the fault is gone: delete force_close"
    force_close(producer)
    assert calls == ["force_close"]


def new_consumer() -> tuple[Any, list[str]]:
    """Return a consumer with one assigned partition, and the passes over all its partitions."""
    subscription = SubscriptionState("none")
    subscription.assign_from_user([WHERE])
    passes: list[str] = []
    fetcher = SimpleNamespace(
        reset_offsets_if_needed=lambda **_: passes.append("reset"),
        maybe_validate_positions=lambda: passes.append("validate"),
        validate_offsets_if_needed=lambda **_: None,
    )
    consumer = SimpleNamespace(
        _subscription=subscription,
        _fetcher=fetcher,
        _use_consumer_group=lambda: True,
        _refresh_committed_offsets=lambda **_: passes.append("refresh"),
        config={"default_api_timeout_ms": 1000},
    )
    return consumer, passes


def test_without_the_repair_the_client_goes_over_all_partitions_for_one_position() -> None:
    consumer, passes = new_consumer()
    consumer._subscription.seek(WHERE, 7)
    assert KafkaConsumer.position(consumer, WHERE, timeout_ms=1000) == 7
    assert passes == ["refresh", "reset", "validate"], "the fault is gone: use position"
    passes.clear()
    assert partition_state(consumer, WHERE).position.offset == 7
    assert partition_state(consumer, ("t", 1)) is None
    assert passes == []
