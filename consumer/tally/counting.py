"""Counts the records of a poll: folds them, and writes the closed windows and dead letters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np

from calmstream.broker.transport import Chunk, Record
from calmstream.common.errors import FatalError
from calmstream.common.metric_definition import MetricDefinition
from calmstream.consumer.metrics import tally as m
from calmstream.consumer.runtime.context import TallyContext
from calmstream.consumer.tally.assignment import AssignedPartitions
from calmstream.consumer.tally.folding.fold import PartitionFold
from calmstream.consumer.tally.membership import Membership
from calmstream.consumer.tally.writing.outbox import WriteOutbox
from calmstream.consumer.tally.writing.records import write_closed, write_dead_letter

_RESUME_AT = 0.5
"""Reading resumes when the number of unacknowledged writes is below this part of its limit."""

_HARD_LIMIT = 4
"""At this multiple of the limit, folding itself waits for acknowledgements. Pausing the reading is
not enough, because the records of one poll can cause many writes."""


MAX_AHEAD_MS = 3_600_000
"""Maximum time by which an append time may be ahead of the worker's clock: one hour. Clocks differ
by less, unless one of them is wrong. A wrong time would close windows too early."""


class RecordCounter:
    """Folds polled records of the assigned partitions."""

    def __init__(
        self,
        context: TallyContext,
        assigned: AssignedPartitions,
        outbox: WriteOutbox,
        membership: Membership,
    ) -> None:
        self._context = context
        self._assigned = assigned
        self._outbox = outbox
        self._membership = membership

    def count(self, chunks: Iterable[Chunk]) -> None:
        """Fold the records of restored partitions; skip other records and those folded before."""
        # The metrics are set once for each call, because to find the series of a label costs as
        # much as to count a record.
        amounts: Counter[tuple[MetricDefinition, int]] = Counter()
        try:
            for chunk in chunks:
                fold = self._assigned.folds.get(chunk.partition)
                if fold is not None:
                    self._count_chunk(fold, chunk, amounts)
        finally:
            for (metric, group), amount in amounts.items():
                self._context.metrics.inc(metric, amount, group=str(group))

    def _count_chunk(
        self, fold: PartitionFold, chunk: Chunk, amounts: Counter[tuple[MetricDefinition, int]]
    ) -> None:
        now_ms = self._context.clock.now_ms()
        at = int(np.searchsorted(chunk.offset, fold.next_offset))
        bad = np.flatnonzero(~chunk.append_time | (chunk.timestamp > now_ms + MAX_AHEAD_MS))
        good = chunk.part(0, int(bad[0]) if len(bad) else len(chunk))
        while at < len(good):
            outcome = fold.fold_chunk(good, at)
            amounts[m.RECORDS_READ, fold.group] += outcome.stop - at
            amounts[m.REPORTS_ACCEPTED, fold.group] += int(outcome.reports.sum())
            amounts[m.BATCHES_ACCEPTED, fold.group] += int(np.count_nonzero(outcome.reports))
            # Everything that results is in the outbox before folding can wait, and be stopped.
            for window in outcome.closed:
                write_closed(self._context, self._outbox, chunk.partition, window)
            for index, rejected in outcome.rejected.items():
                write_dead_letter(self._context, self._outbox, good.record(index), rejected)
            at = outcome.stop
            if len(self._outbox) > _HARD_LIMIT * self._context.config.writes_in_flight:
                self._outbox.drain(self._membership.keep_alive_or_stop)
        if at < len(chunk):
            raise _impossible_time(chunk.record(at), now_ms)

    def apply_back_pressure(self) -> None:
        """Pause reading while too many writes are not acknowledged; resume it at half of them."""
        pending, limit = len(self._outbox), self._context.config.writes_in_flight
        if pending > limit:
            self._membership.block(True)
        elif pending <= limit * _RESUME_AT:
            self._membership.block(False)
        self._context.metrics.set(m.IN_FLIGHT, pending)


def _impossible_time(record: Record, now_ms: int) -> FatalError:
    """Return the error about a record whose time must not advance the log's clock."""
    if not record.append_time:
        return FatalError(
            f"{record.partition} offset {record.offset}: the sender set the time; set "
            "message.timestamp.type=LogAppendTime on the topic and count into a new namespace"
        )
    return FatalError(
        f"{record.partition} offset {record.offset}: appended at {record.timestamp} ms, over "
        f"an hour ahead of this machine ({now_ms} ms); set the clock that is wrong, here or "
        "at the broker, before any worker counts this record"
    )
