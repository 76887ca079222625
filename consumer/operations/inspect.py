"""The state of a plan, from its topics alone. Reads once; joins no group and writes nothing."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import structlog

from broker.clock import Clock
from broker.names import TopicNames
from broker.transport import Broker, Partition, Reader, TopicInfo, Topics
from consumer.runtime.foreign_records import ForeignRecords, key_of
from consumer.runtime.read_topics import read_whole
from estimators.errors import FatalError, ForeignRecord, Reason
from estimators.plan import Plan
from estimators.wire import snapshot, state
from estimators.wire.snapshot import Kind, Manifest
from estimators.wire.state import PartitionState

STAMP = "message.timestamp.type"
APPEND_TIME = "LogAppendTime"


@dataclass(frozen=True, slots=True)
class PartitionReport:
    """One input partition. Offsets are positions in its log; times milliseconds since the epoch.

    Attributes:
        group, partition: of the reports topic.
        log_start, log_end: what the log holds.
        next_offset: counted up to here at the last checkpoint; 0 without one.
        resume_from: a restart reads from here.
        clock: the log's clock at next_offset, 0 before the first record.
        closed_through: last window it has closed, -1 for none.
        open_windows: windows that hold counts and are not closed.
        reports: counted so far.
        rejected: records by reason.
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

    @property
    def lag(self) -> int:
        """Number of records that no checkpoint covers yet."""
        return max(self.log_end - self.next_offset, 0)

    @property
    def trouble(self) -> str:
        """Why a worker would refuse this partition; empty if it would not."""
        if self.log_start > self.resume_from:
            return f"the log starts at {self.log_start}, needed from {self.resume_from}"
        if self.log_end < self.next_offset:
            return f"the log ends at {self.log_end}, but it was counted up to {self.next_offset}"
        return ""


@dataclass(frozen=True, slots=True)
class GroupReport:
    """One user group.

    Attributes:
        group: its number.
        reports: accepted so far.
        observed: its part of all reports, 0 without any.
        planned: its part by the plan.
        z: standard deviations between the two if devices draw their groups at random.
    """

    group: int
    reports: int
    observed: float
    planned: float
    z: float


@dataclass(frozen=True, slots=True)
class WindowReport:
    """Numbers of windows by progress, and the newest window of each kind (-1 for none)."""

    planned: int
    closed_everywhere: int
    final: int
    newest_final: int
    newest_early: int


@dataclass(frozen=True, slots=True)
class Inspection:
    """All that ``calmstream inspect`` shows.

    Attributes:
        partitions, groups, windows: see there.
        rejected: records by reason, over all partitions.
        dead_letters: the number that the topic holds.
        sender_times: reports topics whose records carry their senders' times (CreateTime), not the
            broker's. Workers refuse them, since a sender could then decide when windows close.
    """

    partitions: tuple[PartitionReport, ...]
    groups: tuple[GroupReport, ...]
    windows: WindowReport
    rejected: dict[str, int]
    dead_letters: int
    sender_times: tuple[str, ...] = ()

    @property
    def lag(self) -> int:
        """Records that no checkpoint covers yet, over all partitions."""
        return sum(p.lag for p in self.partitions)


def inspect(plan: Plan, broker: Broker, names: TopicNames, clock: Clock) -> Inspection:
    """Read the state and snapshots topics whole and ask for the offsets of the others.

    Raises:
        FatalError: a topic is missing, or holds a record of a newer version.
        RecoverableError: the broker does not answer.
    """
    topics, reader = broker.topics(), broker.reader()
    try:
        wanted = [spec.name for spec in names.specs(0)]
        described = topics.describe(wanted)
        missing = sorted(set(wanted) - described.keys())
        if missing:
            raise FatalError(f"topic {missing[0]} does not exist; create it: calmstream topics")
        states = newest_states(plan, names, topics, reader, clock)
        finals, earlies = _published(names, topics, reader, clock)
        partitions = _partitions(plan, names, topics, states)
        dead_letters = Partition(names.dead_letters, 0)
        starts, ends = topics.log_starts([dead_letters]), topics.log_ends([dead_letters])
        kept = ends[dead_letters] - starts[dead_letters]
    finally:
        reader.close()
        topics.close()
    return Inspection(
        partitions,
        _groups(plan, partitions),
        WindowReport(
            planned=plan.windows,
            closed_everywhere=1 + min(p.closed_through for p in partitions),
            final=len(finals),
            newest_final=max(finals, default=-1),
            newest_early=max(earlies, default=-1),
        ),
        _sum_rejected(partitions),
        kept,
        _sender_times(names, described),
    )


def _sender_times(names: TopicNames, described: Mapping[str, TopicInfo]) -> tuple[str, ...]:
    """Return reports topics that take their senders' times, as far as settings may be read."""
    return tuple(
        topic
        for topic in names.all_reports
        if described[topic].settings.get(STAMP, APPEND_TIME) != APPEND_TIME
    )


def newest_states(
    plan: Plan, names: TopicNames, topics: Topics, reader: Reader, clock: Clock
) -> dict[tuple[int, int], PartitionState]:
    """Return the newest partition record of every (group, partition) that has one.

    Raises:
        FatalError: a record of a newer version.
        RecoverableError: the broker does not answer.
    """
    found: dict[tuple[int, int], PartitionState] = {}
    partitions = [Partition(names.state, number) for number in range(plan.partitions)]
    foreign = ForeignRecords(structlog.get_logger("calmstream.inspect").warning)
    for record in read_whole(reader, topics, partitions, clock):
        try:
            group, number, window = state.parse_key(key_of(record))
            if window is not None or record.value is None:
                continue
            one = state.decode_state(plan, group, record.value)
        except ForeignRecord as error:
            foreign.skip(record, error)
            continue
        known = found.get((group, number))
        if known is None or one.next_offset > known.next_offset:
            found[group, number] = one
    return found


def _published(
    names: TopicNames, topics: Topics, reader: Reader, clock: Clock
) -> tuple[set[int], set[int]]:
    """Return the windows with a final manifest, and those with an early one."""
    found: dict[Kind, set[int]] = {kind: set() for kind in Kind}
    foreign = ForeignRecords(structlog.get_logger("calmstream.inspect").warning)
    for record in read_whole(reader, topics, [Partition(names.snapshots, 0)], clock):
        try:
            window, kind, manifest = snapshot.parse_key(key_of(record))
            if not manifest or record.value is None:
                continue
            if isinstance(snapshot.decode(record.value), Manifest):
                found[kind].add(window)
        except ForeignRecord as error:
            foreign.skip(record, error)
    return found[Kind.FINAL], found[Kind.EARLY]


def _partitions(
    plan: Plan,
    names: TopicNames,
    topics: Topics,
    states: dict[tuple[int, int], PartitionState],
) -> tuple[PartitionReport, ...]:
    inputs = {
        (group, number): Partition(names.reports(group), number)
        for group in range(len(plan.groups))
        for number in range(plan.partitions)
    }
    starts, ends = topics.log_starts(inputs.values()), topics.log_ends(inputs.values())
    return tuple(
        _partition(place, starts[where], ends[where], states.get(place))
        for place, where in inputs.items()
    )


def _partition(
    place: tuple[int, int], start: int, end: int, found: PartitionState | None
) -> PartitionReport:
    if found is None:
        return PartitionReport(*place, start, end, 0, 0, 0, -1, (), 0, {})
    counts = [found.total, *found.open.values()]
    rejected: dict[Reason, int] = {}
    for count in counts:
        for reason, number in count.rejects.items():
            rejected[reason] = rejected.get(reason, 0) + number
    return PartitionReport(
        *place,
        start,
        end,
        found.next_offset,
        found.resume_from,
        found.clock,
        found.closed_through,
        tuple(sorted(found.open)),
        sum(count.tally.reports for count in counts),
        {reason.value: number for reason, number in sorted(rejected.items())},
    )


def _groups(plan: Plan, partitions: tuple[PartitionReport, ...]) -> tuple[GroupReport, ...]:
    reports = [0] * len(plan.groups)
    for partition in partitions:
        reports[partition.group] += partition.reports
    total = sum(reports)
    found = []
    for number, group in enumerate(plan.groups):
        planned = group.share / plan.total_share
        spread = math.sqrt(total * planned * (1 - planned))
        z = (reports[number] - total * planned) / spread if spread else 0.0
        observed = reports[number] / total if total else 0.0
        found.append(GroupReport(number, reports[number], observed, planned, z))
    return tuple(found)


def _sum_rejected(partitions: tuple[PartitionReport, ...]) -> dict[str, int]:
    totals: dict[str, int] = {}
    for partition in partitions:
        for reason, number in partition.rejected.items():
            totals[reason] = totals.get(reason, 0) + number
    return dict(sorted(totals.items()))
