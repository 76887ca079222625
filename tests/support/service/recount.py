"""Count a reports topic again with dictionaries, without the product's code."""

from __future__ import annotations

import json
import time
from collections import Counter

from kafka import KafkaConsumer, TopicPartition

from tests.support.forged import HEAD

READ_SECONDS = 60.0


def read_all(bootstrap: str, topic: str) -> list:
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap, enable_auto_commit=False, auto_offset_reset="earliest"
    )
    try:
        numbers = sorted(consumer.partitions_for_topic(topic) or ())
        parts = [TopicPartition(topic, number) for number in numbers]
        consumer.assign(parts)
        ends = consumer.end_offsets(parts)
        consumer.seek_to_beginning(*parts)
        records = []
        deadline = time.monotonic() + READ_SECONDS
        while any(consumer.position(part) < ends[part] for part in parts):
            assert time.monotonic() < deadline, f"{topic} was not read in {READ_SECONDS:g} s"
            for batch in consumer.poll(timeout_ms=500, max_records=2000).values():
                records.extend(batch)
        return records
    finally:
        consumer.close()


def recount_grr(bootstrap: str, topics: list[str]) -> Counter:
    """Count GRR reports by (group, cell); a batch id counts once in each partition."""
    counts: Counter = Counter()
    for topic in topics:
        batch_ids = set()
        for record in read_all(bootstrap, topic):
            if record.key is None:
                continue
            identity = (record.partition, record.key)
            if identity in batch_ids:
                continue
            batch_ids.add(identity)
            group, n = HEAD.unpack_from(record.value)[3], len(record.value) - HEAD.size
            cells = record.value[HEAD.size :]  # one view of at most 256 cells
            assert n == HEAD.unpack_from(record.value)[5]
            counts.update((group, cell) for cell in cells)
    return counts


def stored_counts(bootstrap: str, state_topic: str) -> tuple[Counter, dict]:
    """Return counts by (group, cell) of the newest partition records, and next offsets."""
    newest: dict[tuple[int, int], dict] = {}
    for record in read_all(bootstrap, state_topic):
        parts = record.key.decode().split("/")
        if len(parts) != 2 or record.value is None:
            continue
        body = json.loads(record.value)
        key = (int(parts[0]), int(parts[1]))
        if key not in newest or body["next_offset"] >= newest[key]["next_offset"]:
            newest[key] = body
    counts: Counter = Counter()
    for (group, _), body in newest.items():
        for part in (body["total"], *body["open"].values()):
            for row in part["counts"]:
                for cell, count in enumerate(row):
                    if count:
                        counts[group, cell] += count
    return counts, {key: body["next_offset"] for key, body in newest.items()}
