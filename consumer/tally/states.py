"""Reads the newest checkpoints of input partitions from the state topic."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

import orjson
import structlog

from calmstream.broker.names import TopicNames
from calmstream.broker.transport import Partition, Record
from calmstream.common.errors import ForeignRecord
from calmstream.consumer.runtime.foreign_records import ForeignRecordCounter, key_of
from calmstream.estimators.plan import Plan
from calmstream.estimators.wire.state import PartitionState, decode_state, partition_key

ReadWhole = Callable[[Collection[Partition]], Iterable[Record]]
"""Reads partitions from their starts to their ends."""


def newest_states(
    plan: Plan, names: TopicNames, inputs: Collection[Partition], read: ReadWhole
) -> dict[Partition, PartitionState]:
    """Return the checkpoint with the largest ``next_offset`` of each input partition that has one.

    Only these are decoded, to save time, unless one of them is foreign.
    """

    def decoded(partition: Partition, value: bytes) -> PartitionState:
        return decode_state(plan, names.group_of(partition.topic), value)

    newest = _newest(names, inputs, read, lambda _, value: _next_offset(value))
    try:
        return {p: decoded(p, value) for p, value in newest.items()}
    except ForeignRecord:
        newest = _newest(names, inputs, read, lambda p, value: decoded(p, value).next_offset)
        return {p: decoded(p, value) for p, value in newest.items()}


def _newest(
    names: TopicNames,
    inputs: Collection[Partition],
    read: ReadWhole,
    next_offset: Callable[[Partition, bytes], int],
) -> dict[Partition, bytes]:
    keys = {partition_key(names.group_of(p.topic), p.number): p for p in inputs}
    state = {Partition(names.state, p.number) for p in inputs}
    best: dict[Partition, tuple[int, bytes]] = {}
    foreign = ForeignRecordCounter(structlog.get_logger("calmstream.tally").warning)
    for record in read(state):
        with foreign.reading(record):
            partition = keys.get(key_of(record))
            if partition is None or record.value is None:
                continue
            if record.partition.number != partition.number:
                continue
            offset = next_offset(partition, record.value)
            if partition not in best or offset > best[partition][0]:
                best[partition] = (offset, record.value)
    return {partition: value for partition, (_, value) in best.items()}


def _next_offset(value: bytes) -> int:
    """Return the ``next_offset`` of a state record without decoding its counts."""
    try:
        return int(orjson.loads(value)["next_offset"])
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError, OverflowError):
        raise ForeignRecord("the state topic holds a value that is no state record") from None
