"""Counts the records of a poll: folds each record and writes what results from it.

To fold a record is to apply it to the counts of its partition. It can close windows, whose counts
are then written to the state topic; a rejected record is written as a dead letter.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np

from calmstream.broker.transport import Chunk
from calmstream.common.metric_definition import MetricDefinition
from calmstream.consumer.metrics import tally as m
from calmstream.consumer.runtime.context import TallyContext
from calmstream.consumer.tally.assignment import AssignedPartitions
from calmstream.consumer.tally.folding.admission import check_append_time, possible_times
from calmstream.consumer.tally.folding.fold import ChunkOutcome, PartitionFold
from calmstream.consumer.tally.membership import Membership
from calmstream.consumer.tally.writing.checkpoint import Checkpointer
from calmstream.consumer.tally.writing.dead_letters import DeadLetters
from calmstream.consumer.tally.writing.outbox import WriteOutbox

_RESUME_AT = 0.5
"""Reading resumes when the number of unacknowledged writes is below this part of its limit."""

_HARD_LIMIT = 4
"""At this multiple of the limit, folding itself waits for acknowledgements. Pausing the reading is
not enough, because the records of one poll can cause many writes."""


class RecordCounter:
    """Folds polled records of the assigned partitions."""

    def __init__(
        self,
        context: TallyContext,
        assigned: AssignedPartitions,
        checkpointer: Checkpointer,
        dead_letters: DeadLetters,
        outbox: WriteOutbox,
        membership: Membership,
    ) -> None:
        self._context = context
        self._assigned = assigned
        self._checkpointer = checkpointer
        self._dead_letters = dead_letters
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
        possible = possible_times(chunk, now_ms)
        good = chunk.part(0, possible) if possible < len(chunk) else chunk
        while at < possible:
            outcome = fold.fold_chunk(good, at)
            amounts[m.RECORDS_READ, fold.group] += outcome.stop - at
            amounts[m.REPORTS_ACCEPTED, fold.group] += int(outcome.reports.sum())
            amounts[m.BATCHES_ACCEPTED, fold.group] += int(np.count_nonzero(outcome.reports))
            # Everything that results is in the outbox before folding can wait, and be stopped.
            self._write(chunk, outcome)
            at = outcome.stop
            if len(self._outbox) > _HARD_LIMIT * self._context.config.writes_in_flight:
                self._outbox.drain(self._membership.keep_alive_or_stop)
        if at < len(chunk):
            check_append_time(chunk.record(at), now_ms)

    def _write(self, chunk: Chunk, outcome: ChunkOutcome) -> None:
        """Write what results from the records of a chunk, in their order."""
        for index, one in outcome.special.items():
            if one.closed:
                self._checkpointer.write_closed(chunk.partition, one.closed)
            if one.rejection is not None:
                self._dead_letters.keep(chunk.record(index), one)
                self._context.metrics.inc(m.REJECTIONS, reason=one.rejection.reason.value)

    def apply_back_pressure(self) -> None:
        """Pause reading while too many writes are not acknowledged; resume it at half of them."""
        pending, limit = len(self._outbox), self._context.config.writes_in_flight
        if pending > limit:
            self._membership.block(True)
        elif pending <= limit * _RESUME_AT:
            self._membership.block(False)
        self._context.metrics.set(m.IN_FLIGHT, pending)
