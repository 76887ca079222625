"""Counts one input partition. The state of this counting is called a fold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calmstream.broker.transport import Chunk
from calmstream.common.errors import FatalError, Reason, Rejection
from calmstream.consumer.tally.folding.admission import AdmissionControl
from calmstream.estimators.plan import Plan
from calmstream.estimators.tally import Tally
from calmstream.estimators.wire.joined import Joined
from calmstream.estimators.wire.state import ClosedWindow, PartitionState, WindowCount


class Rejected(NamedTuple):
    """A rejection, and its number among those of its reason and window so far."""

    rejection: Rejection
    number: int


@dataclass(frozen=True, slots=True, eq=False)
class ChunkOutcome:
    """The effect of consecutive records of a chunk.

    Attributes:
        stop: index in the chunk of the first record that was not folded.
        reports: number of reports that were counted of each folded record, shape (records,), int64.
        closed: the windows that the time of the first record closed, in order, also empty ones.
        rejected: the rejected records by index in the chunk, ascending. Every other record is an
            accepted batch, or a tick without reports.
    """

    stop: int
    reports: NDArray[np.int64]
    closed: tuple[ClosedWindow, ...]
    rejected: Mapping[int, Rejected]


class Accumulator:
    """The counts of one group of devices, which are changed in place and copied when returned."""

    __slots__ = ("_mechanism", "_views", "counts", "n", "rejects")

    def __init__(self, plan: Plan, group: int, count: WindowCount | None = None) -> None:
        self._mechanism = plan.mechanisms[group]
        self._views = len(plan.groups[group].views)
        start = zero_count(plan, group) if count is None else count
        self.n = start.tally.n.copy()
        self.counts = start.tally.counts.copy()
        self.rejects = dict(start.rejects)

    def count(
        self, n: int, view: NDArray[np.int64] | None, columns: Mapping[str, NDArray[Any]]
    ) -> None:
        """Add n reports, given as in `Batch`. Cost: one call of the mechanism's ``tally``."""
        if view is None:
            self.n[0] += n
        else:
            self.n += np.bincount(view, minlength=self._views)
        self.counts += self._mechanism.tally(columns, view, self._views)

    def add(self, other: WindowCount) -> None:
        self.n += other.tally.n
        self.counts += other.tally.counts
        for reason, count in other.rejects.items():
            self.reject(reason, count)

    def reject(self, reason: Reason, count: int = 1) -> int:
        """Add rejected records; return the number of records rejected for this reason so far."""
        self.rejects[reason] = total = self.rejects.get(reason, 0) + count
        return total

    def copy(self) -> WindowCount:
        return WindowCount(Tally(self.n.copy(), self.counts.copy()), dict(self.rejects))


def zero_count(plan: Plan, group: int) -> WindowCount:
    """Return the counts of a window of this group without any record."""
    return WindowCount(Tally.zero(len(plan.groups[group].views), plan.mechanisms[group].width))


class PartitionFold:
    """The state of counting one input partition. Deterministic: no real clock, no randomness.

    ``saved_offset`` is the ``next_offset`` of the newest partition record that is acknowledged.
    """

    def __init__(
        self, plan: Plan, group: int, admission: AdmissionControl, state: PartitionState
    ) -> None:
        if (admission.clock, admission.closed_through) != (state.clock, state.closed_through):
            raise FatalError(
                f"group {group}: the log below offset {state.next_offset} is not the one that was "
                "counted; was it altered? Count into a new namespace"
            )
        self.group = group
        self.admission = admission
        self.next_offset = self.saved_offset = state.next_offset
        self._plan = plan
        self._zero = zero_count(plan, group)
        self._topic_id = state.topic_id
        self._total = Accumulator(plan, group, state.total)
        self._total_copy: WindowCount | None = None
        self._open = {
            window: Accumulator(plan, group, count) for window, count in state.open.items()
        }

    @classmethod
    def start(cls, plan: Plan, group: int, topic_id: str) -> PartitionFold:
        zero = zero_count(plan, group)
        return cls(
            plan,
            group,
            AdmissionControl(plan, group),
            PartitionState(topic_id, 0, 0, -1, 0, 0, zero, {}),
        )

    def fold_chunk(self, chunk: Chunk, first: int = 0) -> ChunkOutcome:
        """Apply records of a chunk from index ``first`` on. Offsets must increase, with any gaps.

        It stops before the next record that closes windows, so that the caller can write what
        results before it continues; at least one record is applied.
        """
        offset = int(chunk.offset[first])
        if offset < self.next_offset:
            raise ValueError(f"offset {offset} is below {self.next_offset}")
        decisions = self.admission.admit(chunk.part(first, len(chunk)))
        closed = tuple(self._close(window, offset) for window in decisions.closed)
        for joined in decisions.accepted():
            self._count_joined(joined)
        rejected = {
            first + index: self._reject(rejection, int(decisions.clock[index]))
            for index, rejection in sorted(decisions.rejections.items())
        }
        stop = first + len(decisions)
        self.next_offset = int(chunk.offset[stop - 1]) + 1
        return ChunkOutcome(stop, decisions.reports, closed, rejected)

    def _count_joined(self, joined: Joined) -> None:
        for period in set(joined.period.tolist()):
            same = joined.only(joined.period == period)
            self._window(period).count(int(same.n.sum()), same.view, same.columns)

    def _reject(self, rejection: Rejection, clock: int) -> Rejected:
        """Count a rejected record in the window of the clock, or in the nearest open one.

        After the last window has closed, it is counted in the total.
        """
        first, last = self.admission.closed_through + 1, self._plan.windows - 1
        if first > last:
            self._total_copy = None
            counts = self._total
        else:
            counts = self._window(min(max(self._plan.window_at(clock), first), last))
        return Rejected(rejection, counts.reject(rejection.reason))

    def _window(self, number: int) -> Accumulator:
        window = self._open.get(number)
        if window is None:
            window = self._open[number] = Accumulator(self._plan, self.group)
        return window

    def _close(self, number: int, offset: int) -> ClosedWindow:
        window = self._open.pop(number, None)
        if window is None:
            return ClosedWindow(number, offset, self._zero, self._total_now())
        count = WindowCount(Tally(window.n, window.counts), window.rejects)
        self._total.add(count)
        self._total_copy = None
        return ClosedWindow(number, offset, count, self._total_now())

    def _total_now(self) -> WindowCount:
        """Return a copy of the running total; it is copied again only after a change."""
        if self._total_copy is None:
            self._total_copy = self._total.copy()
        return self._total_copy

    def state(self) -> PartitionState:
        """Return the checkpoint at ``next_offset``; later records do not change it."""
        admission = self.admission
        # Without accepted batches in open windows, a restore has no ids to find again.
        here = self.next_offset, admission.clock
        resume_from, resume_clock = admission.batches.resume_point() or here
        return PartitionState(
            topic_id=self._topic_id,
            next_offset=self.next_offset,
            clock=admission.clock,
            closed_through=admission.closed_through,
            resume_from=resume_from,
            resume_clock=resume_clock,
            total=self._total_now(),
            open={window: count.copy() for window, count in sorted(self._open.items())},
        )
