"""Reports the state of a plan: reads its topics once, joins no group and writes nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, replace

import structlog

from calmstream.broker.names import TopicNames
from calmstream.broker.topic_facts import SETTINGS, faults
from calmstream.broker.transport import Broker, Partition, Reader, Topics
from calmstream.common.clock import Clock
from calmstream.common.errors import FatalError, Reason
from calmstream.consumer.read.kept import KeptCounts
from calmstream.consumer.runtime.foreign_records import ForeignRecordCounter, key_of
from calmstream.consumer.runtime.read_topics import PatientReader
from calmstream.consumer.tally.restore import newest_states
from calmstream.estimators.plan import Plan
from calmstream.estimators.wire import snapshot
from calmstream.estimators.wire.snapshot import Kind, Manifest
from calmstream.estimators.wire.state import PartitionState

SENDERS_TIME = -1
"""Stands for the append time of a record that has none, because its sender set the time."""


@dataclass(frozen=True, slots=True)
class PartitionReport:
    """The state of one input partition, from its last checkpoint.

    Clocks are in milliseconds since the epoch; ``waits_since`` is the append time of the first
    uncounted record, 0 for none.
    """

    group: int
    partition: int
    log_start: int
    log_end: int
    next_offset: int
    resume_from: int
    clock: int
    closed_through: int
    open_windows: tuple[int, ...]
    reports: int
    rejected: dict[str, int]
    waits_since: int = 0

    @property
    def lag(self) -> int:
        return max(self.log_end - self.next_offset, 0)

    @property
    def trouble(self) -> str:
        """Why a worker would refuse this partition; empty if it would not."""
        if self.log_start > self.resume_from:
            return f"the log starts at {self.log_start}, needed from {self.resume_from}"
        if self.log_end < self.next_offset:
            return f"the log ends at {self.log_end}, but it was counted up to {self.next_offset}"
        if self.waits_since == SENDERS_TIME:
            return (
                f"the sender set the time of record {self.next_offset}; set "
                "message.timestamp.type=LogAppendTime and count into a new namespace"
            )
        return ""


@dataclass(frozen=True, slots=True)
class WindowReport:
    """The plan's windows; ``kept`` are the final ones whose counts of all groups are kept."""

    planned: int
    closed_everywhere: int
    final: int
    newest_final: int
    newest_early: int
    kept: int


@dataclass(frozen=True, slots=True)
class Inspection:
    """The result that ``calmstream inspect`` prints; ``faults`` of topics state the remedy."""

    partitions: tuple[PartitionReport, ...]
    windows: WindowReport
    rejected: dict[str, int]
    dead_letters: int
    faults: tuple[str, ...] = ()

    @property
    def lag(self) -> int:
        return sum(p.lag for p in self.partitions)


def inspect(plan: Plan, broker: Broker, names: TopicNames, clock: Clock) -> Inspection:
    """Read the state and snapshots topics completely; of the other topics, request the offsets."""
    topics, reader = broker.topics(), broker.reader()
    try:
        wanted = [spec.name for spec in names.specs(0)]
        described = topics.describe(wanted, SETTINGS)
        missing = sorted(set(wanted) - described.keys())
        if missing:
            raise FatalError(f"topic {missing[0]} does not exist; create it: calmstream topics")
        reading = PatientReader(reader, topics, clock)
        states = newest_states(plan, names, names.inputs, reading)
        finals, earlies = _published(plan, names, reading)
        with closing(KeptCounts(plan, broker, names, clock)) as kept:
            kept.refresh()
            windows = finals.intersection(kept.windows())
        partitions = _partitions(names, topics, states, reader)
        dead = Partition(names.dead_letters, 0)
        starts, ends = topics.log_starts([dead]), topics.log_ends([dead])
    finally:
        reader.close()
    rejected = sum((Counter(p.rejected) for p in partitions), Counter[str]())
    return Inspection(
        partitions,
        WindowReport(
            planned=plan.windows,
            closed_everywhere=1 + min(p.closed_through for p in partitions),
            final=len(finals),
            newest_final=max(finals, default=-1),
            newest_early=max(earlies, default=-1),
            kept=len(windows),
        ),
        dict(sorted(rejected.items())),
        ends[dead] - starts[dead],
        tuple(fault.text for fault in faults(plan, names, described, wanted)),
    )


def _published(plan: Plan, names: TopicNames, reading: PatientReader) -> tuple[set[int], set[int]]:
    windows: dict[Kind, set[int]] = {kind: set() for kind in Kind}
    foreign = ForeignRecordCounter(structlog.get_logger("calmstream.inspect").warning)
    for record in reading.whole([Partition(names.snapshots, 0)]):
        with foreign.reading(record):
            window, kind, manifest = snapshot.parse_key(key_of(record))
            if not manifest or record.value is None:
                continue
            if isinstance(snapshot.decode(record.value, plan), Manifest):
                windows[kind].add(window)
    return windows[Kind.FINAL], windows[Kind.EARLY]


def _partitions(
    names: TopicNames, topics: Topics, states: Mapping[Partition, PartitionState], reader: Reader
) -> tuple[PartitionReport, ...]:
    starts, ends = topics.log_starts(names.inputs), topics.log_ends(names.inputs)
    found = tuple(
        _partition((names.group_of(p.topic), p.number), starts[p], ends[p], states.get(p))
        for p in names.inputs
    )
    since = _waiting(names, found, reader)
    return tuple(replace(p, waits_since=since.get((p.group, p.partition), 0)) for p in found)


def _waiting(
    names: TopicNames, partitions: tuple[PartitionReport, ...], reader: Reader
) -> dict[tuple[int, int], int]:
    """Return the append time of the first uncounted record that comes within a second."""
    behind = {
        Partition(names.reports(p.group), p.partition): max(p.next_offset, p.log_start)
        for p in partitions
        if p.lag and not p.trouble
    }
    reader.assign(behind)
    for where, offset in behind.items():
        reader.seek(where, offset)
    found: dict[tuple[int, int], int] = {}
    for _ in range(5 if behind else 0):
        for chunk in reader.poll_chunks(0.2, 1000):
            place = names.group_of(chunk.partition.topic), chunk.partition.number
            if chunk.damage is None:
                time = int(chunk.timestamp[0]) if chunk.append_time[0] else SENDERS_TIME
                found.setdefault(place, time)
        if len(found) == len(behind):
            break
    return found


def _partition(
    place: tuple[int, int], start: int, end: int, checkpoint: PartitionState | None
) -> PartitionReport:
    if checkpoint is None:
        return PartitionReport(*place, start, end, 0, 0, 0, -1, (), 0, {})
    counts = [checkpoint.total, *checkpoint.open.values()]
    rejected: Counter[Reason] = Counter()
    for count in counts:
        rejected.update(count.rejects)
    return PartitionReport(
        *place,
        start,
        end,
        checkpoint.next_offset,
        checkpoint.resume_from,
        checkpoint.clock,
        checkpoint.closed_through,
        tuple(sorted(checkpoint.open)),
        sum(count.tally.reports for count in counts),
        {reason.value: number for reason, number in sorted(rejected.items())},
    )
