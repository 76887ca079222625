"""Decides which records of a partition are accepted batches, and why others are not.

A decision depends only on the plan, the record, the log's clock and the ids accepted before. New
records and the reading of old ids after a restart use the same class, so that they decide alike.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from calmstream.broker.transport import Chunk
from calmstream.common.errors import Reason, Rejection
from calmstream.consumer.tally.folding.batch_ids import BatchIds, Ids, hashes
from calmstream.consumer.tally.folding.decode import ChunkOutcome, decode, rows_at
from calmstream.estimators.plan import Plan
from calmstream.estimators.wire.batch import BATCH_ID_BYTES

DUPLICATE = "this batch id was accepted before in this window"
"""Detail of the rejection of a duplicate."""

NEVER = 1 << 62
"""A time in milliseconds that is later than any append time."""

Integers = NDArray[np.int64]


class AdmissionControl:
    """Decides on the records of one input partition, in the order of its log.

    ``clock`` is the log's clock in milliseconds since the epoch, the largest append time so far and
    0 before the first record. ``closed_through`` is the last closed window, -1 for none, and the
    next one closes when the clock is above ``next_close``. A window stays open for the plan's
    *grace* after its end; a batch may be ahead of the clock by at most the plan's *skew*.
    The ids of the batches of open windows take at most 24 bytes each.
    """

    def __init__(self, plan: Plan, group: int, clock: int = 0) -> None:
        self._ids: dict[int, BatchIds] = {}
        # By window the offset of its first accepted batch, and the clock before.
        self._first: dict[int, tuple[int, int]] = {}
        self._plan = plan
        self._group = group
        self._set_clock(clock)

    def _set_clock(self, clock: int) -> None:
        plan, length = self._plan, self._plan.window * 1000
        past = clock - (plan.start + plan.grace) * 1000
        self.clock = clock
        self.closed_through = max(-1, min(-(-past // length) - 2, plan.windows - 1))
        following = self.closed_through + 1
        closes = plan.window_end(following) + plan.grace * 1000
        self.next_close = closes if following < plan.windows else NEVER

    def _advance(self, timestamp: int) -> None:
        """Advance the log's clock to a record's time, and close the windows that it passes."""
        if timestamp > self.clock:
            self._set_clock(timestamp)
        for window in [window for window in self._ids if window <= self.closed_through]:
            del self._ids[window]
            self._first.pop(window, None)

    def admit(self, chunk: Chunk) -> ChunkOutcome:
        """Decide on the first records of a chunk, up to the next one that closes windows.

        At least one is decided on: a record closes windows before it is admitted.
        """
        before = self.clock
        self._advance(int(chunk.timestamp[0]))
        later = np.flatnonzero(chunk.timestamp > self.next_close)
        chunk = chunk.part(0, int(later[0]) if len(later) else len(chunk))
        outcome = decode(self._plan, self._group, chunk)
        clock = np.maximum(np.maximum.accumulate(chunk.timestamp), self.clock)
        outcome.clock, self.clock = clock, int(clock[-1])
        in_time = self._check_periods(outcome)
        clock_before = np.concatenate([[before], clock[:-1]])
        for period in sorted(set(outcome.period[in_time].tolist())):
            chosen = np.flatnonzero(in_time & (outcome.period == period))
            self._admit_period(outcome, period, chosen, clock_before)
        outcome.reports[list(outcome.rejections)] = 0
        return outcome

    def replay(self, chunk: Chunk) -> None:
        """Decide again on records that were folded before, to find their ids again.

        If it begins with the log's clock at the resume point of a checkpoint, every decision on
        open windows is the same as before.
        """
        at = 0
        while at < len(chunk):
            at += len(self.admit(chunk.part(at, len(chunk))).records)

    def _check_periods(self, outcome: ChunkOutcome) -> NDArray[np.bool_]:
        """Return which records are batches of open windows; reject batches of other windows."""
        plan, period = self._plan, outcome.period
        batches = outcome.reports > 0  # a batch has at least one report, any other record none
        possible = (period > self.closed_through) & (period < plan.windows)
        start = (plan.start + np.where(possible, period, 0) * plan.window) * 1000
        in_time = batches & possible & (start <= outcome.clock + plan.skew * 1000)
        for index in np.flatnonzero(batches & ~in_time).tolist():
            outcome.rejections[index] = self._not_open(int(period[index]))
        return in_time

    def _not_open(self, period: int) -> Rejection:
        last, closed = self._plan.windows - 1, self.closed_through
        if period > last:
            return Rejection(Reason.AFTER_END, f"the plan's last window is {last}")
        if period <= closed:
            return Rejection(Reason.LATE, f"the log has closed the windows through {closed}")
        return Rejection(Reason.EARLY, "the window begins later than the log's clock plus skew")

    def _admit_period(
        self, outcome: ChunkOutcome, period: int, chosen: Integers, clock_before: Integers
    ) -> None:
        """Decide on the batches of one open window, at the indices ``chosen``."""
        chunk = outcome.records
        ids = rows_at(chunk, chunk.key[chosen], BATCH_ID_BYTES).view(np.uint64)
        mixed = hashes(ids)
        kept = self._ids.setdefault(period, BatchIds())
        new = ~kept.contains(ids, mixed)
        if not (new.all() and _different(ids) and self._within(kept, outcome.reports[chosen])):
            new = self._one_by_one(outcome, kept, chosen, ids, new)
        if new.any():
            # A restore may begin at the first accepted batch: with the clock before this record.
            first = chosen[new][0]
            place = int(chunk.offset[first]), int(clock_before[first])
            self._first.setdefault(period, place)
            kept.add_all(ids[new], mixed[new])

    def resume_point(self) -> tuple[int, int] | None:
        """Return the offset of the first accepted batch of open windows, and the clock before."""
        return min(self._first.values(), default=None)

    def _within(self, kept: BatchIds, reports: Integers) -> bool:
        """Return whether these batches stay within the plan's limits, whatever their order."""
        limits = self._plan.limits
        return bool(
            reports.max() <= limits.batch_reports and len(kept) + len(reports) <= limits.batches
        )

    def _one_by_one(
        self,
        outcome: ChunkOutcome,
        kept: BatchIds,
        chosen: Integers,
        ids: Ids,
        new: NDArray[np.bool_],
    ) -> NDArray[np.bool_]:
        """Decide in order on batches of one window; return which of them are accepted.

        The limits come last, so that a copy of an accepted batch is a duplicate also at a limit.
        """
        before, seen = len(kept), set[bytes]()
        accepted = np.zeros(len(chosen), np.bool_)
        for i, index in enumerate(chosen.tolist()):
            key = ids[i].tobytes()
            if not new[i] or key in seen:
                outcome.rejections[index] = Rejection(Reason.DUPLICATE, DUPLICATE)
                continue
            over = self._over(int(outcome.reports[index]), before + len(seen))
            if over:
                outcome.rejections[index] = Rejection(Reason.OVER_LIMIT, over)
                continue
            seen.add(key)
            accepted[i] = True
        return accepted

    def _over(self, n: int, accepted: int) -> str:
        limits = self._plan.limits
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
