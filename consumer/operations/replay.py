"""Counts windows again from the log and publishes them; optionally counts rejected records, too.

One process reads each input partition once, up to the end of the log at the beginning of the run.
It publishes the windows that every partition has closed up to there, in a new namespace (the first
part of the topic names). A *set* is all tables of one window and kind. Nothing is stored between
runs: after a failure, start again with another namespace. Without rejected records, the published
sets have the same bytes as those of the live service with the same software.

Rejected records are counted from the log, which is read a second time for them, because a dead
letter contains only the first bytes of its record. The dead letters show which rejected records
the log does not contain any more.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import structlog

from calmstream.broker.names import TopicNames
from calmstream.broker.transport import Broker, Chunk, Partition, Record, Topics
from calmstream.common.clock import Clock
from calmstream.common.errors import FatalError, InvalidInput, Reason, Rejection
from calmstream.consumer.publish import current_sets
from calmstream.consumer.publish.build import SnapshotSet, build_set, count_records
from calmstream.consumer.publish.changes import TESTS_FAILED, changes_of
from calmstream.consumer.publish.merge import MergedWindow, StateMerger
from calmstream.consumer.publish.set_writer import KeyedRecord, SetWriter
from calmstream.consumer.runtime.foreign_records import ForeignRecordCounter
from calmstream.consumer.runtime.read_topics import read_span_chunks, read_whole
from calmstream.consumer.tally.folding.admission import check_append_time, possible_times
from calmstream.consumer.tally.folding.fold import Accumulator, ChunkOutcome, PartitionFold
from calmstream.consumer.tally.folding.windows import window_of_clock
from calmstream.estimators.plan import Plan
from calmstream.estimators.tracking.tracker import Tracker
from calmstream.estimators.wire.batch import Batch, decode_batch
from calmstream.estimators.wire.counts import decode_counts
from calmstream.estimators.wire.dead_letter import DeadLetter, content_hash
from calmstream.estimators.wire.snapshot import Kind
from calmstream.estimators.wire.state import ClosedWindow, WindowCount

_LOG = structlog.get_logger("calmstream.replay")
# Maximum wait for the acknowledgement of a set.
_SEND_SECONDS = 60.0
NEVER_ADMITTED = frozenset({Reason.DUPLICATE, Reason.AFTER_END})
"""Reasons whose records are never counted later: a duplicate was already counted, and after the
plan's end there is no window."""

# A record in the log: topic, number of the partition, offset.
_Origin = tuple[str, int, int]


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """The result of a replay.

    Attributes:
        totals: whether running totals were published, too. This needs the whole log: the replay
            begins with the first window, and no record was deleted from the log.
        admitted: number of rejected records that were counted now, by the reason of their
            rejection.
        refused: number of rejected records of the chosen reasons that were not counted, by the
            cause. The cause is ``gone`` (the log has lost the record, or contains another one at
            its offset), ``other_window`` (its window is not published), or a reason of rejection.
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
    test_changes: bool = True,
) -> ReplayResult:
    """Count windows ``first`` to ``last`` again; publish them under the target's names."""
    if NEVER_ADMITTED.intersection(admit):
        raise InvalidInput("duplicates, and reports for after the plan's end, are never admitted")
    topics = broker.topics()
    try:
        _prepare(topics, source, target)
        recount = _Recount(plan, source, topics, first, frozenset(admit))
        reader = broker.reader()
        try:
            for chunk in read_span_chunks(reader, recount.spans, clock):
                recount.read(chunk, clock.now_ms())
            windows = recount.closed_windows(last)
            if admit:
                dead_letters = [Partition(source.dead_letters, 0)]
                for record in read_whole(reader, topics, dead_letters, clock):
                    recount.read_dead_letter(record)
                for chunk in read_span_chunks(reader, recount.rejected_spans(), clock):
                    for record in chunk.records():
                        recount.admit(record, windows)
        finally:
            reader.close()
    finally:
        topics.close()
    whole = first == 0 and all(start == 0 for start, _ in recount.spans.values())
    publication = _Publication(plan, target, recount, windows, whole, test_changes)
    reports = publication.write(broker, clock)
    admitted, refused = dict(recount.admitted), dict(recount.refused)
    return ReplayResult(tuple(windows), whole, reports, admitted, refused)


def _prepare(topics: Topics, source: TopicNames, target: TopicNames) -> None:
    """Create the target's topics; InvalidInput if the target is not new."""
    if target.output_prefix == source.output_prefix:
        raise InvalidInput("--output-namespace: a replay writes into a new namespace of its own")
    topics.create([s for s in target.specs(0) if s.name.startswith(f"{target.output_prefix}.")])
    where = Partition(target.snapshots, 0)
    if topics.log_ends([where])[where]:
        raise InvalidInput(f"{target.snapshots} holds snapshots already; choose a new namespace")


class _Recount:
    """The counts of all input partitions during a replay."""

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
        inputs = names.inputs
        infos = topics.describe(names.all_reports)
        starts, ends = topics.log_starts(inputs), topics.log_ends(inputs)
        self.spans = {p: (starts[p], ends[p]) for p in inputs}
        self._folds = {
            p: PartitionFold.start(plan, names.group_of(p.topic), infos[p.topic].id) for p in inputs
        }
        # The counts of closed windows, by window and partition.
        self._closed: dict[int, dict[Partition, ClosedWindow]] = defaultdict(dict)
        # Group, window and batch id of each accepted batch.
        self._accepted: set[tuple[int, int, bytes | None]] = set()
        # Reason and window of each rejected record that can be counted now.
        self._rejected: dict[_Origin, tuple[Reason, int | None]] = {}
        # Hashes of rejected records, and the records that the log has lost, from dead letters.
        self._hashes: dict[_Origin, str] = {}
        self._gone: set[_Origin] = set()
        self._foreign = ForeignRecordCounter(_LOG.warning)
        self.admitted: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        for partition, (start, end) in self.spans.items():
            if start == end and end > 0:  # all records were deleted
                raise FatalError(
                    f"{partition}: its log is empty, the windows cannot be counted again"
                )

    def read(self, chunk: Chunk, now_ms: int) -> None:
        """Count the records of a chunk of the first reading, with the code of a tally worker."""
        possible = possible_times(chunk, now_ms)
        if possible < len(chunk):
            check_append_time(chunk.record(possible), now_ms)
        fold, at = self._folds[chunk.partition], 0
        if fold.next_offset == 0 and int(chunk.offset[0]) > 0:
            self._check_beginning(chunk.record(0))
        while at < len(chunk):
            first, clock = at, fold.clock
            outcome = fold.fold_chunk(chunk, first)
            at = outcome.stop
            for special in outcome.special.values():
                for window in special.closed:
                    if window.window >= self._first:
                        self._closed[window.window][chunk.partition] = window
            if self._admit:
                self._note_decisions(chunk.part(first, at), first, clock, fold, outcome)

    def _check_beginning(self, record: Record) -> None:
        """Check that a log without its beginning has all records that the first window can accept.

        The first window accepts records from its start minus the skew on.
        """
        skew_ms, window_ms = self._plan.skew * 1000, self._plan.window * 1000
        if record.timestamp > self._plan.window_start(self._first) - skew_ms:
            since_start = record.timestamp + skew_ms - self._plan.start * 1000
            possible = -(-since_start // window_ms)  # rounded up
            raise FatalError(
                f"{record.partition}: the log starts at {record.offset}, within window "
                f"{self._first} or later; windows from {possible} on can be counted again"
            )

    def _note_decisions(
        self, part: Chunk, first: int, clock: int, fold: PartitionFold, outcome: ChunkOutcome
    ) -> None:
        """Note the ids of accepted batches, and rejections for one of the chosen reasons."""
        for index in np.flatnonzero(outcome.reports).tolist():
            start, end = part.key[index].tolist()
            period = int(outcome.period[index])
            self._accepted.add((fold.group, period, part.data[start:end]))
        for index, special in outcome.special.items():
            if special.rejection is None or special.rejection.reason not in self._admit:
                continue
            now = max(clock, int(part.timestamp[: index - first + 1].max()))
            window = window_of_clock(self._plan, now, fold.closed_through)
            origin = (*part.partition, int(part.offset[index - first]))
            self._rejected[origin] = (special.rejection.reason, window)

    def closed_windows(self, last: int | None) -> list[int]:
        """Return the windows to publish: those that every partition has closed."""
        through = min(fold.closed_through for fold in self._folds.values())
        if last is not None and last > through:
            open_in = min(self._folds, key=lambda p: self._folds[p].closed_through)
            raise InvalidInput(
                f"window {last} is not closed in {open_in} (closed through {through}); a window "
                "closes when a worker has read records from after its end plus grace"
            )
        end = through if last is None else last
        if end < self._first:
            raise InvalidInput(f"no window from {self._first} on is closed in every partition")
        return list(range(self._first, end + 1))

    def read_dead_letter(self, record: Record) -> None:
        """Note the hash of the rejected record that a dead letter describes, or that it is lost."""
        with self._foreign.reading(record):
            self._note(DeadLetter.from_headers(record.headers, self._plan))

    def _note(self, dead_letter: DeadLetter) -> None:
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
        """Count a record that was rejected for a chosen reason, if that is possible."""
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
        except Rejection as rejection:
            self.refused[rejection.reason.value] += 1
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
        """Subtract one rejection from the window in which it was counted, if it is published."""
        closed = None if window is None else self._closed.get(window, {}).get(where)
        if closed is not None:
            rejects = dict(closed.count.rejects)
            rejects[reason] -= 1
            remaining = {r: count for r, count in rejects.items() if count}
            count = WindowCount(closed.count.tally, remaining)
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


class _Publication:
    """The sets and counts of a replay."""

    def __init__(
        self,
        plan: Plan,
        target: TopicNames,
        recount: _Recount,
        windows: Collection[int],
        whole: bool,
        test_changes: bool,
    ) -> None:
        self._plan = plan
        self._target = target
        self._windows = windows
        self._whole = whole
        self._test_changes = test_changes
        self._merger = recount.merger(windows)
        admitted = sorted(recount.admitted.items())
        self._notes = tuple(f"rejected records admitted: {reason} {n:,}" for reason, n in admitted)

    def write(self, broker: Broker, clock: Clock) -> int:
        """Write the finals and, of a whole log, totals and current sets; return the reports."""
        reports = 0
        tracker = Tracker(self._plan)
        sink = broker.sink()
        writer = SetWriter(sink, self._target.snapshots, clock, _SEND_SECONDS)
        try:
            for window in self._windows:
                final = self._merger.final(window)
                total = self._merger.total(window) if self._whole else None
                kept = self._counts(window)
                if final is not None:
                    reports += final.reports
                    writer.deliver(self._target.counts, kept, 0)
                for merged in (final, total):
                    if merged is not None:
                        writer.write(_set_with_notes(self._plan, merged, self._notes))
                if final is not None:
                    writer.deliver(self._target.counts, self._tests(window, kept), 0)
                if final is not None and self._whole and self._plan.windows > 1:
                    self._write_current(writer, tracker, kept)
        finally:
            sink.close(_SEND_SECONDS)
        return reports

    def _write_current(
        self, writer: SetWriter, tracker: Tracker, kept: Iterable[KeyedRecord]
    ) -> None:
        counts = [decode_counts(self._plan, value) for _, value in kept if value is not None]
        current_sets.add(tracker, counts)
        try:
            found = current_sets.build(self._plan, tracker, counts)
        except Exception as error:  # noqa: BLE001 - as in a publisher: no final needs it
            reason = f"{type(error).__name__}: {error}"
            _LOG.error(current_sets.FAILED, window=counts[0].window, error=reason)
        else:
            writer.write(found)

    def _counts(self, window: int) -> list[tuple[bytes, bytes]]:
        """Return the records of counts of a window; none of a window that is not counted."""
        final = self._merger.final(window)
        total = self._merger.total(window) if self._whole else None
        return [] if final is None else list(count_records(self._plan, final, total))

    def _tests(self, window: int, kept: Sequence[tuple[bytes, bytes]]) -> list[KeyedRecord]:
        """Return the record of tests of change, from counts alone, as a publisher makes it."""
        if not self._test_changes:
            return []
        own, before = (
            {group: value for group, (_, value) in enumerate(records)}
            for records in (kept, self._counts(window - 1))
        )
        try:
            return [changes_of(self._plan, own, before or None)]
        except Exception as error:  # noqa: BLE001 - as in a publisher: the final needs no tests
            reason = f"{type(error).__name__}: {error}"
            _LOG.error(TESTS_FAILED, window=window, error=reason)
            return []


def _set_with_notes(plan: Plan, merged: MergedWindow, notes: tuple[str, ...]) -> SnapshotSet:
    """Build the set; its manifest states the notes about rejected records that were counted."""
    built = build_set(plan, merged, counts=merged.kind is Kind.FINAL)
    if not notes:
        return built
    steps = (*notes, *built.manifest.processing)
    return replace(built, manifest=replace(built.manifest, processing=steps))
