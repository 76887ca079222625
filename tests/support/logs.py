"""Reads the reports topics of a plan to their ends."""

from __future__ import annotations

import time

from calmstream.broker.names import TopicNames
from calmstream.broker.transport import Broker, Partition, Record
from calmstream.estimators.plan import Plan


def read_reports(broker: Broker, plan: Plan, names: TopicNames, seconds: float) -> list[Record]:
    """Return all records of the reports topics, read within so many seconds."""
    partitions = [
        Partition(topic, number) for topic in names.all_reports for number in range(plan.partitions)
    ]
    ends, reader = broker.topics().log_ends(partitions), broker.reader()
    reader.assign(partitions)
    for partition in partitions:
        reader.seek(partition, 0)
    found: list[Record] = []
    deadline = time.monotonic() + seconds
    while any(reader.position(p) < end for p, end in ends.items()):
        assert time.monotonic() < deadline, "the log could not be read in time"
        found += reader.poll(0.5)
    return found
