"""Repair of a consumer that never returns the rest of the records of a partition that was paused.

Fault: kafka-python keeps the records of a partition of which a poll has returned a part. If the
partition is paused meanwhile, it parks them. After the pause it takes parked records only while its
place for present records was never used or was emptied by a pause; after other records were
returned in full, their empty remains stay in this place. While records are parked, it does not
fetch the partition.
Effect: a partition that is paused while a part of its records is returned can stand still for good,
although its log grows. Only a pause of another partition at the right moment ends this.
Repair: before records are returned, the place is emptied. If it still holds records, they are
parked behind the others, so that partitions take turns.
"""

from __future__ import annotations

from typing import Any

from kafka import KafkaConsumer


def return_parked_records(consumer: KafkaConsumer) -> None:
    """Let a consumer return parked records as soon as their partition is not paused any more."""
    fetcher, subscription = consumer._fetcher, consumer._subscription
    fetched_records = fetcher.fetched_records

    def with_parked_records(*args: Any, **options: Any) -> Any:
        present, parked = fetcher._next_partition_records, fetcher._paused_partition_records
        if not present:
            fetcher._next_partition_records = None
        elif not all(map(subscription.is_paused, parked)):
            fetcher._next_partition_records = None
            parked[present.topic_partition] = present
        return fetched_records(*args, **options)

    fetcher.fetched_records = with_parked_records
