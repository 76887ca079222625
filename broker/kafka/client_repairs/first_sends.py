"""Repair of a producer whose first send to a topic is slow.

Fault: kafka-python's producer waits ``retry_backoff_ms`` (100 ms) between two requests for the
cluster's metadata, also when a topic is unknown to it.
Effect: every first send takes 100 ms or more, one topic after the other.
Repair: the pause is short only while the producer waits for a new topic. At all other times it is
as configured, because the producer repeats its requests as long as a partition has no leader.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from kafka import KafkaProducer

_SETTING = "retry_backoff_ms"
# A broker answers a metadata request within some milliseconds.
_FIRST_SEND_PAUSE_MS = 10


@contextmanager
def fast_metadata(producer: KafkaProducer) -> Iterator[None]:
    """Let the producer request metadata in short intervals within the ``with`` block.

    Only one thread may use it at a time, because it changes a setting of the producer.
    """
    config = producer._metadata.config
    configured = config[_SETTING]
    config[_SETTING] = _FIRST_SEND_PAUSE_MS
    try:
        yield
    finally:
        config[_SETTING] = configured


def announce_topics(producer: KafkaProducer, topics: Iterable[str]) -> None:
    """Let the producer's next request for metadata ask for these topics too. Does not wait."""
    for topic in topics:
        producer._sender.add_topic(topic)
