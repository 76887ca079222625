"""The first send to a new topic is slow.

Fault: kafka-python's producer waits ``retry_backoff_ms`` (100 ms) between two requests for the
cluster's metadata, also when a topic is unknown to it.
Effect: every first send takes 100 ms or more, one topic after the other.
Repair: the pause is short while a new topic is awaited, and as configured at all other times: while
a partition has no leader, the producer asks for metadata without end.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from kafka import KafkaProducer

_SETTING = "retry_backoff_ms"
_FIRST_SEND_PAUSE_MS = 10


@contextmanager
def fast_metadata(producer: KafkaProducer) -> Iterator[None]:
    """Let the producer ask for metadata in short intervals. One thread at a time."""
    config = producer._metadata.config
    configured = config[_SETTING]
    config[_SETTING] = _FIRST_SEND_PAUSE_MS
    try:
        yield
    finally:
        config[_SETTING] = configured
