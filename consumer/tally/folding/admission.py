"""Decides which records of a partition are accepted batches, and why others are not.

A decision depends only on the plan, the record, the log's clock and the ids accepted before. New
records and the reading of old ids after a restart use the same class, so that they decide alike.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calmstream.broker.transport import Chunk, Record
from calmstream.common.errors import FatalError, Reason, Rejection
from calmstream.consumer.tally.folding.batch_ids import AcceptedBatches, Ids, hashes
from calmstream.consumer.tally.folding.windows import (
    NEVER,
    check_period,
    closed_through,
    closes_after,
)
from calmstream.estimators.plan import Plan
from calmstream.estimators.wire.batch import BATCH_ID_BYTES
from calmstream.estimators.wire.joined import Decoded, Values, decode_all, refused

MAX_AHEAD_MS = 3_600_000
"""Maximum time by which an append time may be ahead of the worker's clock: one hour. Clocks differ
by less, unless one of them is wrong. A wrong time would close windows too early."""

DUPLICATE = "this batch id was accepted before in this window"
"""Detail of the rejection of a duplicate."""

Integers = NDArray[np.int64]


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


@dataclass(frozen=True, slots=True, eq=False)
class Decisions:
    """The decisions on n records: shapes (n,), ``clock`` is the log's after each record."""

    decoded: Decoded
    accepted: NDArray[np.bool_]
    rejections: dict[int, Rejection]
    clock: Integers


class AdmissionControl:
    """Decides on the records of one input partition, in the order of its log."""

    def __init__(self, plan: Plan, group: int, clock: int = 0) -> None:
        self.clock = clock
        self.closed_through = closed_through(plan, clock)
        self.batches = AcceptedBatches()
        self.plan = plan
        self.group = group
        self._before = clock
        self._closes_after = closes_after(plan, self.closed_through + 1)

    @property
    def next_close(self) -> int | None:
        """The clock above which the next window closes, in milliseconds; None after the last."""
        return None if self._closes_after == NEVER else self._closes_after

    def advance(self, timestamp: int) -> range:
        """Advance the log's clock to a record's time; return the windows that this closes."""
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

    def until_close(self, chunk: Chunk) -> int:
        """Return how many records can be decided on together: those before a window closes.

        Call :meth:`advance` with the first record's time first; it is always one of them.
        """
        later = np.flatnonzero(chunk.timestamp > self._closes_after)
        return int(later[0]) if len(later) else len(chunk)

    def admit(self, chunk: Chunk) -> Decisions:
        """Decide on all records of a chunk, of which only the first may have closed windows.

        Call :meth:`advance` with the first record's time first.
        """
        clock = np.maximum(np.maximum.accumulate(chunk.timestamp), self.clock)
        if chunk.damage is None:
            values = Values(chunk.data, chunk.key, chunk.value)
            decoded = decode_all(self.plan, self.group, values)
        else:
            lost, first, why = chunk.damage.records, chunk.damage.first_offset, chunk.damage.why
            detail = f"{lost} records from offset {first} cannot be decoded: {why}"
            decoded = refused(Rejection(Reason.UNDECODABLE, detail))
        rejections = dict(decoded.rejections)
        accepted = decoded.reports > 0
        self._check_periods(decoded.period, clock, accepted, rejections)
        clock_before = np.concatenate([[self._before], clock[:-1]])
        for period in sorted(set(decoded.period[accepted].tolist())):
            chosen = np.flatnonzero(accepted & (decoded.period == period))
            self._admit_period(chunk, period, chosen, decoded, clock_before, rejections)
        for index in rejections:
            accepted[index] = False
        self.clock = int(clock[-1])
        return Decisions(decoded, accepted, rejections, clock)

    def replay(self, chunk: Chunk) -> None:
        """Decide again on records that were folded before, to find their ids again.

        A restart uses it for the records after the resume point of a checkpoint. If it begins with
        the log's clock at that point, every decision on open windows is the same as before.
        """
        at = 0
        while at < len(chunk):
            self.advance(int(chunk.timestamp[at]))
            part = chunk.part(at, len(chunk))
            until = self.until_close(part)
            self.admit(part.part(0, until))
            at += until

    def _check_periods(
        self,
        period: Integers,
        clock: Integers,
        accepted: NDArray[np.bool_],
        rejections: dict[int, Rejection],
    ) -> None:
        """Reject batches of windows that are not open; remove them from ``accepted``."""
        plan, closed = self.plan, self.closed_through
        possible = (period > closed) & (period < plan.windows)
        start = (plan.start + np.where(possible, period, 0) * plan.window) * 1000
        wrong = accepted & ~(possible & (start <= clock + plan.skew * 1000))
        for index in np.flatnonzero(wrong).tolist():
            try:
                check_period(plan, int(period[index]), int(clock[index]), closed)
            except Rejection as rejection:
                rejections[index] = rejection
        accepted &= ~wrong

    def _admit_period(
        self,
        chunk: Chunk,
        period: int,
        chosen: Integers,
        decoded: Decoded,
        clock_before: Integers,
        rejections: dict[int, Rejection],
    ) -> None:
        """Decide on the batches of one open window, at the indices ``chosen``."""
        values = Values(chunk.data, chunk.key, chunk.value)
        ids = values.rows(chunk.key[chosen], BATCH_ID_BYTES).view(np.uint64)
        mixed = hashes(ids)
        new = ~self.batches.known(period, ids, mixed)
        if not (new.all() and _different(ids) and self._within(period, decoded.reports[chosen])):
            new = self._one_by_one(period, chosen, ids, new, decoded.reports, rejections)
        if new.any():
            first = chosen[new][0]
            self.batches.add_all(
                period, ids[new], mixed[new], int(chunk.offset[first]), int(clock_before[first])
            )

    def _within(self, period: int, reports: Integers) -> bool:
        """Return whether these batches stay within the plan's limits, whatever their order."""
        limits = self.plan.limits
        return bool(
            reports.max() <= limits.batch_reports
            and self.batches.accepted(period) + len(reports) <= limits.batches
        )

    def _one_by_one(
        self,
        period: int,
        chosen: Integers,
        ids: Ids,
        new: NDArray[np.bool_],
        reports: Integers,
        rejections: dict[int, Rejection],
    ) -> NDArray[np.bool_]:
        """Decide in order on batches of one window; return which of them are accepted.

        The limits come last, so that a copy of an accepted batch is a duplicate also at a limit.
        """
        before, seen = self.batches.accepted(period), set[bytes]()
        accepted = np.zeros(len(chosen), np.bool_)
        for i, index in enumerate(chosen.tolist()):
            key = ids[i].tobytes()
            if not new[i] or key in seen:
                rejections[index] = Rejection(Reason.DUPLICATE, DUPLICATE)
                continue
            over = self._over(int(reports[index]), before + len(seen))
            if over:
                rejections[index] = Rejection(Reason.OVER_LIMIT, over)
                continue
            seen.add(key)
            accepted[i] = True
        return accepted

    def _over(self, n: int, accepted: int) -> str:
        limits = self.plan.limits
        if n > limits.batch_reports:
            return f"{n} reports; the plan allows {limits.batch_reports} in a batch"
        if accepted >= limits.batches:
            return (
                f"the partition has accepted {limits.batches} batches of this window, the most "
                "that the plan allows"
            )
        return ""


def _different(ids: Ids) -> bool:
    """Return whether even the first halves of all ids are different; those of random ids are."""
    words = np.sort(ids[:, 0])
    return not (words[1:] == words[:-1]).any()
