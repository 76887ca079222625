"""Read a topic with librdkafka, to see what another Kafka client would bring.

It needs the package confluent-kafka, which calmstream does not depend on.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from calmstream.broker.records import Chunk
from calmstream.broker.transport import Partition, Record
from calmstream.consumer.tally.folding.fold import PartitionFold
from calmstream.estimators.plan import Plan

POLL_RECORDS = 5000


def drop_by_librdkafka(bootstrap: str, where: Partition, records: int) -> float:
    """Return the processor time in seconds to read a partition and drop the records."""
    began = time.process_time()
    for _ in _messages(bootstrap, where, records):
        pass
    return time.process_time() - began


def count_by_librdkafka(bootstrap: str, where: Partition, records: int, plan: Plan) -> float:
    """Return the processor time in seconds to read a partition and count it."""
    fold = PartitionFold.start(plan, 0, "id")
    began = time.process_time()
    for messages in _messages(bootstrap, where, records):
        chunk = _chunk(where, messages)
        at = 0
        while at < len(chunk):
            at = fold.fold_chunk(chunk, at).stop
    took = time.process_time() - began
    assert fold.next_offset == records
    return took


def _messages(bootstrap: str, where: Partition, records: int) -> Iterator[list[Any]]:
    import confluent_kafka as client

    consumer = client.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"bench-{secrets.token_hex(4)}",
            "enable.auto.commit": False,
            "check.crcs": True,
            "isolation.level": "read_uncommitted",
        }
    )
    consumer.assign([client.TopicPartition(where.topic, where.number, 0)])
    left = records
    while left:
        messages = consumer.consume(num_messages=POLL_RECORDS, timeout=1.0)
        left -= len(messages)
        if messages:
            yield messages
    consumer.close()


def _chunk(where: Partition, messages: list[Any]) -> Chunk:
    """Return messages as columns; only keys and values are copied."""
    parts, offsets, times = [], [], []
    for message in messages:
        parts += (message.key(), message.value())
        offsets.append(message.offset())
        times.append(message.timestamp()[1])
    ends = np.cumsum([len(part) for part in parts], dtype=np.int64)
    spans = np.stack([ends - [len(part) for part in parts], ends], axis=1).reshape(-1, 2, 2)
    empty = Chunk.of([Record(where, 0, 0, True, None, None)]).headers
    return Chunk(
        where,
        b"".join(parts) + b"\x00",
        np.array(offsets, np.int64),
        np.array(times, np.int64),
        np.ones(len(messages), np.bool_),
        spans[:, 0],
        spans[:, 1],
        np.repeat(empty, len(messages), axis=0),
    )
