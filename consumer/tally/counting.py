"""Counts the records of a poll: folds them, and writes the closed windows and dead letters.

A dead letter holds the first bytes of a rejected record; its headers state the reason and origin.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np

from calmstream.broker.topic_facts import MAX_DEAD_LETTER_BYTES
from calmstream.broker.transport import Chunk, Record
from calmstream.common.errors import FatalError
from calmstream.common.metric_definition import MetricDefinition
from calmstream.consumer.metrics import tally as m
from calmstream.consumer.runtime.context import TallyContext
from calmstream.consumer.tally.assignment import AssignedPartitions
from calmstream.consumer.tally.folding.fold import PartitionFold, Rejected
from calmstream.consumer.tally.membership import Membership
from calmstream.consumer.tally.writing.checkpoint import Checkpointer
from calmstream.consumer.tally.writing.outbox import Write, WriteOutbox
from calmstream.estimators.wire.dead_letter import DeadLetter, content_hash

_RESUME_AT = 0.5
"""Reading resumes when the number of unacknowledged writes is below this part of its limit."""

_HARD_LIMIT = 4
"""At this multiple of the limit, folding itself waits for acknowledgements. Pausing the reading is
not enough, because the records of one poll can cause many writes."""


MAX_AHEAD_MS = 3_600_000
"""Maximum time by which an append time may be ahead of the worker's clock: one hour. Clocks differ
by less, unless one of them is wrong. A wrong time would close windows too early."""

MAX_KEPT_BYTES = MAX_DEAD_LETTER_BYTES // 4
"""Maximum number of bytes that are kept of a value, and of a key. The rest stays in the log, where
offset and hash identify the record."""

KEPT_PER_REASON = 1000
"""Maximum number of dead letters for one reason, window and partition; further rejected records are
only counted. The number of earlier rejections is part of the counts, so a worker that reads the log
again writes dead letters for the same records."""


class RecordCounter:
    """Folds polled records of the assigned partitions."""

    def __init__(
        self,
        context: TallyContext,
        assigned: AssignedPartitions,
        checkpointer: Checkpointer,
        outbox: WriteOutbox,
        membership: Membership,
    ) -> None:
        self._context = context
        self._assigned = assigned
        self._checkpointer = checkpointer
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
        possible = int(bad[0]) if len(bad) else len(chunk)
        good = chunk.part(0, possible)
        while at < possible:
            outcome = fold.fold_chunk(good, at)
            amounts[m.RECORDS_READ, fold.group] += outcome.stop - at
            amounts[m.REPORTS_ACCEPTED, fold.group] += int(outcome.reports.sum())
            amounts[m.BATCHES_ACCEPTED, fold.group] += int(np.count_nonzero(outcome.reports))
            # Everything that results is in the outbox before folding can wait, and be stopped.
            self._checkpointer.write_closed(chunk.partition, outcome.closed)
            for index, rejected in outcome.rejected.items():
                self._write_dead_letter(chunk.record(index), rejected)
            at = outcome.stop
            if len(self._outbox) > _HARD_LIMIT * self._context.config.writes_in_flight:
                self._outbox.drain(self._membership.keep_alive_or_stop)
        if at < len(chunk):
            raise _impossible_time(chunk.record(at), now_ms)

    def _write_dead_letter(self, record: Record, rejected: Rejected) -> None:
        """Write a dead letter for a rejected record; to write it twice does no harm."""
        (rejection, number), damage = rejected, record.damage
        self._context.metrics.inc(m.REJECTIONS, reason=rejection.reason.value)
        if number > KEPT_PER_REASON:
            self._context.metrics.inc(m.DEAD_LETTERS_OMITTED)
            return
        letter = DeadLetter(
            reason=rejection.reason,
            detail=rejection.detail,
            topic=record.partition.topic,
            partition=record.partition.number,
            offset=record.offset,
            timestamp=record.timestamp,
            plan=self._context.plan.digest,
            length=len(record.value or b""),
            sha256=content_hash(record.value),
            first_offset=record.offset if damage is None else damage.first_offset,
            records=1 if damage is None else damage.records,
        )
        value = (record.value or b"")[:MAX_KEPT_BYTES]
        key = None if record.key is None else record.key[:MAX_KEPT_BYTES]
        topic, headers = self._context.names.dead_letters, letter.headers()
        self._outbox.send(Write(record.partition, topic, 0, key, lambda: value, headers))

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
