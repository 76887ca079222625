"""Admission: decides whether the batch of reports in a record is accepted or rejected.

A decision depends only on the plan, the record, the log's clock (the largest append time so far)
and the ids of the batches that were accepted before. :class:`AdmissionControl` makes the decisions
of one partition, in the order of its log. The counting of new records and the reading of old ids
after a restart use the same class, so that their decisions are always the same.
"""

from __future__ import annotations

import numpy as np

from calmstream.broker.transport import Chunk, Record
from calmstream.common.errors import FatalError, Reason, Rejection
from calmstream.consumer.tally.folding.accepted_batches import AcceptedBatches
from calmstream.consumer.tally.folding.windows import (
    NEVER,
    check_period,
    closed_through,
    closes_after,
)
from calmstream.estimators.plan import Plan
from calmstream.estimators.wire.batch import TICK, Batch, decode_batch

MAX_AHEAD_MS = 3_600_000
"""Maximum time by which an append time may be ahead of the worker's clock: one hour. Clocks differ
by less, unless one of them is wrong. A wrong time would close windows too early."""

DUPLICATE = "this batch id was accepted before in this window"
"""Detail of the rejection of a duplicate."""


def check_append_time(record: Record, now_ms: int) -> None:
    """Check, before a record is folded, that its time may advance the log's clock."""
    if not record.append_time:
        raise FatalError(
            f"{record.partition} offset {record.offset}: the sender set the time; set "
            "message.timestamp.type=LogAppendTime on the topic and count into a new namespace"
        )
    if record.timestamp > now_ms + MAX_AHEAD_MS:
        raise FatalError(
            f"{record.partition} offset {record.offset}: appended at {record.timestamp} ms, over "
            f"an hour ahead of this machine ({now_ms} ms); set the clock that is wrong, here or "
            "at the broker, before any worker counts this record"
        )


def possible_times(chunk: Chunk, now_ms: int) -> int:
    """Return how many records of a chunk pass :func:`check_append_time` before the first fails."""
    bad = np.flatnonzero(~chunk.append_time | (chunk.timestamp > now_ms + MAX_AHEAD_MS))
    return int(bad[0]) if len(bad) else len(chunk)


class AdmissionControl:
    """Decides on the records of one input partition, in the order of its log.

    Args:
        plan: the plan whose reports are counted.
        group: index of the group of devices whose topic is read.
        clock: the log's clock before the first record, in milliseconds.

    Attributes:
        plan, group: as given.
        clock: the log's clock: the largest append time so far, milliseconds since the epoch.
        closed_through: number of the last closed window, -1 for none.
        batches: the accepted batches of open windows.
    """

    def __init__(self, plan: Plan, group: int, clock: int = 0) -> None:
        self.clock = clock
        self.closed_through = closed_through(plan, clock)
        self.batches = AcceptedBatches()
        self.plan = plan
        self.group = group
        self._before = clock
        self._closes_after = closes_after(plan, self.closed_through + 1)

    def advance(self, timestamp: int) -> range:
        """Advance the log's clock to a record's time; return the windows that this closes.

        Called first for every record, also for a tick and for one that is then rejected.
        """
        self._before = self.clock
        self.clock = max(self.clock, timestamp)
        first = self.closed_through + 1
        if self.clock <= self._closes_after:
            return range(first, first)
        self.closed_through = closed_through(self.plan, self.clock)
        self._closes_after = closes_after(self.plan, self.closed_through + 1)
        for window in range(first, self.closed_through + 1):
            self.batches.forget(window)
        return range(first, self.closed_through + 1)

    def closes(self, timestamp: int) -> bool:
        """Return whether a record of this time would close windows."""
        return timestamp > self._closes_after

    def admit(self, record: Record) -> Batch | None:
        """Return the accepted batch of a record, or None for a tick.

        Call :meth:`advance` with the record's time first.
        """
        if record.damage is not None:
            raise Rejection(
                Reason.UNDECODABLE,
                f"{record.damage.records} records from offset {record.damage.first_offset} cannot "
                f"be decoded: {record.damage.why}",
            )
        key, value = record.key, record.value
        if key is None and value == TICK:
            return None
        batch = decode_batch(self.plan, self.group, key, value)
        assert key is not None, "a decoded batch has an id"
        check_period(self.plan, batch.period, self.clock, self.closed_through)
        if self.batches.contains(batch.period, key):
            raise Rejection(Reason.DUPLICATE, DUPLICATE)
        self.check_limits(batch.n, self.batches.accepted(batch.period))
        self.batches.add(batch.period, key, record.offset, self._before)
        return batch

    def check_limits(self, n: int, accepted: int) -> None:
        """Check the plan's limits on batches.

        This check is the last one, so that a copy of an accepted batch is rejected as a duplicate,
        also when the limit is reached.
        """
        limits = self.plan.limits
        if limits is None:
            return
        if n > limits.batch_reports:
            raise Rejection(
                Reason.OVER_LIMIT,
                f"{n} reports; the plan allows {limits.batch_reports} in a batch",
            )
        if accepted >= limits.batches:
            raise Rejection(
                Reason.OVER_LIMIT,
                f"the partition has accepted {limits.batches} batches of this window, the most "
                "that the plan allows",
            )

    def replay(self, record: Record) -> Batch | None:
        """Decide again on a record that was folded before, to find its id again.

        A restart uses it for the records after the resume point of a checkpoint. If it begins with
        the log's clock at that point, every decision on open windows is the same as before.
        """
        self.advance(record.timestamp)
        try:
            return self.admit(record)
        except Rejection:
            return None

    @property
    def next_close(self) -> int | None:
        """The clock above which the next window closes, in milliseconds; None after the last."""
        return None if self._closes_after == NEVER else self._closes_after
