"""Counting windows again from the log, optionally with rejected records of chosen reasons.

One process reads every input partition once, up to an end fetched at the beginning, and publishes
the windows that every partition has closed by then. Nothing is kept between runs: after a failure,
start again into another namespace. Without admitted rejects the sets have the same bytes as those
of the live service (on the same image).

Rejected records are taken from the log, which is read a second time for them: dead letters hold
only their first bytes. The dead letters show which rejected records the log has lost.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

import structlog

from broker.clock import Clock
from broker.names import TopicNames
from broker.transport import Broker, Partition, Record, Topics
from consumer.publish.build import SnapshotSet, build_set
from consumer.publish.merge import MergedWindow, StateMerger
from consumer.publish.set_writer import SetWriter
from consumer.runtime.foreign_records import ForeignRecords
from consumer.runtime.read_topics import read_spans, read_whole
from consumer.tally.folding.admission import check_append_time
from consumer.tally.folding.fold import Accumulator, Outcome, PartitionFold
from consumer.tally.folding.windows import window_of_clock
from estimators.errors import FatalError, ForeignRecord, InvalidInput, Reason, Rejection
from estimators.plan import Plan
from estimators.wire.batch import Batch, decode_batch
from estimators.wire.dead_letter import DeadLetter, content_hash
from estimators.wire.state import ClosedWindow, WindowCount

_SEND_SECONDS = 60.0
NEVER_ADMITTED = frozenset({Reason.DUPLICATE, Reason.AFTER_END})
"""A duplicate was counted before; after the plan's end there is no window to count in."""


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """What a replay did.

    Attributes:
        windows: published, ascending.
        totals: whether running totals were published too: only from the first window on.
        reports: counted in these windows.
        admitted: rejected records counted now, by the reason they were rejected for.
        refused: rejected records of the chosen reasons that were not counted, by the cause;
            ``gone`` are those whose record the log has lost: only the dead letter is left.
    """

    windows: tuple[int, ...]
    totals: bool
    reports: int
    admitted: Mapping[str, int] = field(default_factory=dict)
    refused: Mapping[str, int] = field(default_factory=dict)


def replay(
    plan: Plan,
    broker: Broker,
    source: TopicNames,
    target: TopicNames,
    clock: Clock,
    *,
    first: int = 0,
    last: int | None = None,
    admit: Collection[Reason] = (),
) -> ReplayResult:
    """Count windows ``first`` to ``last`` again and publish them into the target's snapshots topic.

    Args:
        plan: the plan.
        broker: where both are.
        source: whose reports and dead letters are read.
        target: names with a new output namespace; its topics are created.
        clock: for time-outs, and to refuse append times in the future.
        first: first window.
        last: last window; None for the last one that every partition has closed.
        admit: reasons of rejected records to count after all; each is compared by (period, batch
            id) with all batches that the log accepted, and counted at most once.

    Raises:
        InvalidInput: the target is not new, or a window asked for is not closed everywhere.
        FatalError: the log no longer holds a window from its beginning.
        RecoverableError: the broker does not answer.
    """
    if NEVER_ADMITTED.intersection(admit):
        raise InvalidInput("duplicates, and reports for after the plan's end, are never admitted")
    topics = broker.topics()
    try:
        _prepare(topics, source, target)
        log = _Log(plan, source, topics, first, frozenset(admit))
        reader = broker.reader()
        try:
            for record in read_spans(reader, log.spans, clock):
                check_append_time(record, clock.now_ms())
                log.read(record)
            windows = log.closed_windows(last)
            if admit:
                dead_letters = [Partition(source.dead_letters, 0)]
                for record in read_whole(reader, topics, dead_letters, clock):
                    log.read_dead_letter(record)
                for record in read_spans(reader, log.rejected_spans(), clock):
                    log.admit(record, windows)
        finally:
            reader.close()
    finally:
        topics.close()
    whole = first == 0 and all(start == 0 for start, _ in log.spans.values())
    reports = _publish(plan, broker, target, log, windows, whole, clock)
    return ReplayResult(tuple(windows), whole, reports, dict(log.admitted), dict(log.refused))


def _prepare(topics: Topics, source: TopicNames, target: TopicNames) -> None:
    if target.output_prefix == source.output_prefix:
        raise InvalidInput("--output-namespace: a replay writes into a new namespace of its own")
    topics.create([s for s in target.specs(0) if s.name.startswith(f"{target.output_prefix}.")])
    where = Partition(target.snapshots, 0)
    if topics.log_ends([where])[where]:
        raise InvalidInput(f"{target.snapshots} holds snapshots already; choose a new namespace")


class _Log:
    """The counts of all input partitions, with the rejected records that are counted after all."""

    def __init__(
        self,
        plan: Plan,
        names: TopicNames,
        topics: Topics,
        first: int,
        admit: frozenset[Reason],
    ) -> None:
        self._plan = plan
        self._names = names
        self._first = first
        self._admit = admit
        inputs = [Partition(t, n) for t in names.all_reports for n in range(plan.partitions)]
        infos = topics.describe(names.all_reports)
        starts, ends = topics.log_starts(inputs), topics.log_ends(inputs)
        self.spans = {p: (starts[p], ends[p]) for p in inputs}
        self._folds = {
            p: PartitionFold.start(plan, names.group_of(p.topic), infos[p.topic].id) for p in inputs
        }
        self._closed: dict[int, dict[Partition, ClosedWindow]] = defaultdict(dict)
        self._accepted: set[tuple[int, int, bytes | None]] = set()
        self._rejected: dict[tuple[str, int, int], tuple[Reason, int | None]] = {}
        self._foreign = ForeignRecords(structlog.get_logger("calmstream.replay").warning)
        self._hashes: dict[tuple[str, int, int], str] = {}
        self._gone: set[tuple[str, int, int]] = set()
        self.admitted: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        for partition, (start, end) in self.spans.items():
            if start == end > 0:
                raise FatalError(
                    f"{partition}: its log is empty, the windows cannot be counted again"
                )

    def read(self, record: Record) -> None:
        """Fold one record."""
        fold = self._folds[record.partition]
        if fold.next_offset == 0 and record.offset > 0:
            self._check_beginning(record)
        outcome = fold.fold(record)
        for window in outcome.closed:
            if window.window >= self._first:
                self._closed[window.window][record.partition] = window
        if self._admit:
            self._note(record, fold, outcome)

    def _check_beginning(self, record: Record) -> None:
        """Check that a trimmed log still holds all that the first window can have accepted."""
        needed = self._plan.window_start(self._first) - self._plan.skew * 1000
        if record.timestamp > needed:
            behind = record.timestamp + self._plan.skew * 1000 - self._plan.start * 1000
            possible = -(-behind // (self._plan.window * 1000))
            raise FatalError(
                f"{record.partition}: the log starts at {record.offset}, within window "
                f"{self._first} or later; windows from {possible} on can be counted again"
            )

    def _note(self, record: Record, fold: PartitionFold, outcome: Outcome) -> None:
        if outcome.period is not None:
            self._accepted.add((fold.group, outcome.period, record.key))
        elif outcome.rejection is not None and outcome.rejection.reason in self._admit:
            window = window_of_clock(self._plan, fold.clock, fold.closed_through)
            self._rejected[(*record.partition, record.offset)] = (outcome.rejection.reason, window)

    def closed_windows(self, last: int | None) -> list[int]:
        """Return the windows to publish: those that every partition has closed.

        Raises:
            InvalidInput: a requested window is not closed everywhere.
        """
        through = min(fold.closed_through for fold in self._folds.values())
        if last is not None and last > through:
            open_in = min(self._folds, key=lambda p: self._folds[p].closed_through)
            raise InvalidInput(
                f"window {last} is not closed in {open_in} (closed through {through}); it is once "
                "a worker has read past its end plus grace"
            )
        end = through if last is None else last
        if end < self._first:
            raise InvalidInput(f"no window from {self._first} on is closed in every partition")
        return list(range(self._first, end + 1))

    def read_dead_letter(self, record: Record) -> None:
        """Note which rejected record a dead letter of a chosen reason describes."""
        try:
            dead_letter = DeadLetter.from_headers(record.headers)
        except ForeignRecord as error:
            self._foreign.skip(record, error)
            return
        where = Partition(dead_letter.topic, dead_letter.partition)
        if dead_letter.reason not in self._admit or where not in self._folds:
            return
        origin = (*where, dead_letter.offset)
        if dead_letter.offset < self.spans[where][0] and origin not in self._gone:
            self._gone.add(origin)
            self.refused["gone"] += 1
        elif dead_letter.sha256:
            self._hashes[origin] = dead_letter.sha256

    def rejected_spans(self) -> dict[Partition, tuple[int, int]]:
        """Return the span from the first to the last rejected record of the chosen reasons."""
        spans: dict[Partition, tuple[int, int]] = {}
        for topic, number, offset in self._rejected:
            where = Partition(topic, number)
            first, end = spans.get(where, (offset, offset + 1))
            spans[where] = (min(first, offset), max(end, offset + 1))
        return spans

    def admit(self, record: Record, windows: Collection[int]) -> None:
        """Count a record that was rejected for a chosen reason, if it can be counted."""
        origin = (*record.partition, record.offset)
        if origin not in self._rejected:
            return
        reason, window = self._rejected[origin]
        if self._hashes.get(origin, "") not in ("", content_hash(record.value)):
            self.refused["gone"] += 1
            return
        group = self._names.group_of(record.partition.topic)
        try:
            batch = decode_batch(self._plan, group, record.key, record.value)
        except Rejection as still:
            self.refused[still.reason.value] += 1
            return
        identity = (group, batch.period, record.key)
        if identity in self._accepted:
            self.refused[Reason.DUPLICATE.value] += 1
        elif batch.period not in windows:
            self.refused["other_window"] += 1
        else:
            self._accepted.add(identity)
            self.admitted[reason.value] += 1
            self._count(record.partition, batch, group)
            self._remove_reject(record.partition, window, reason)

    def _count(self, where: Partition, batch: Batch, group: int) -> None:
        closed = self._closed[batch.period][where]
        counts = Accumulator(self._plan, group, closed.count)
        counts.count(batch)
        self._closed[batch.period][where] = replace(closed, count=counts.copy())

    def _remove_reject(self, where: Partition, window: int | None, reason: Reason) -> None:
        """Take one reject off the window that it was attributed to, if that is published."""
        closed = self._closed.get(-1 if window is None else window, {}).get(where)
        if closed is not None:
            rejects = dict(closed.count.rejects)
            rejects[reason] -= 1
            left = {r: count for r, count in rejects.items() if count}
            count = WindowCount(closed.count.tally, left)
            self._closed[closed.window][where] = replace(closed, count=count)

    def merger(self, windows: Iterable[int]) -> StateMerger:
        """Return the counts of the windows, with running totals from the first one on."""
        merger = StateMerger(self._plan)
        totals: dict[Partition, Accumulator] = {}
        for window in windows:
            for where, closed in self._closed[window].items():
                group = self._names.group_of(where.topic)
                total = totals.setdefault(where, Accumulator(self._plan, group))
                total.add(closed.count)
                merger.add_closed(group, where.number, replace(closed, total=total.copy()))
        return merger


def _publish(
    plan: Plan,
    broker: Broker,
    target: TopicNames,
    log: _Log,
    windows: Collection[int],
    whole: bool,
    clock: Clock,
) -> int:
    merger = log.merger(windows)
    notes = tuple(f"rejected records admitted: {r} {n:,}" for r, n in sorted(log.admitted.items()))
    reports = 0
    sink = broker.sink()
    writer = SetWriter(sink, target.snapshots, clock, _SEND_SECONDS)
    try:
        for window in windows:
            final, total = merger.final(window), merger.total(window) if whole else None
            reports += 0 if final is None else final.reports
            for merged in (final, total):
                if merged is not None:
                    writer.write(_noted(plan, merged, notes))
    finally:
        sink.close(_SEND_SECONDS)
    return reports


def _noted(plan: Plan, merged: MergedWindow, notes: tuple[str, ...]) -> SnapshotSet:
    """Build the set; its manifest states which rejected records were counted after all."""
    built = build_set(plan, merged)
    if not notes:
        return built
    steps = (*notes, *built.manifest.processing)
    return replace(built, manifest=replace(built.manifest, processing=steps))
