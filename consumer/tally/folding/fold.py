"""Counts one input partition. The state of this counting is called a fold."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from calmstream.broker.transport import Chunk
from calmstream.common.errors import FatalError, Reason
from calmstream.consumer.tally.folding.admission import AdmissionControl
from calmstream.consumer.tally.folding.decode import ChunkOutcome, Joined
from calmstream.estimators.plan import Plan
from calmstream.estimators.tally import Tally
from calmstream.estimators.wire.state import ClosedWindow, PartitionState, WindowCount


def zero_count(plan: Plan, group: int) -> WindowCount:
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
        self._mechanism = plan.mechanisms[group]
        self._zero = zero_count(plan, group)
        self._topic_id = state.topic_id
        self._total = state.total
        # Their arrays are this fold's own, and change in place.
        self._open = {window: count + self._zero for window, count in state.open.items()}

    @classmethod
    def start(cls, plan: Plan, group: int, topic_id: str) -> PartitionFold:
        zero = zero_count(plan, group)
        return cls(
            plan,
            group,
            AdmissionControl(plan, group),
            PartitionState(topic_id, 0, 0, -1, 0, 0, zero, {}),
        )

    def fold(self, chunk: Chunk) -> Iterator[ChunkOutcome]:
        """Apply the records of a chunk, up to each that closes windows before it is applied itself.

        So the caller can write what results before the next ones. Offsets must increase, with any
        gaps.
        """
        while len(chunk):
            offset = int(chunk.offset[0])
            if offset < self.next_offset:
                raise ValueError(f"offset {offset} is below {self.next_offset}")
            closed = self.admission.closed_through
            outcome = self.admission.admit(chunk)
            closes = range(closed + 1, self.admission.closed_through + 1)
            outcome.closed = [self._close(window, offset) for window in closes]
            for joined in outcome.joined:
                self._count_joined(joined.only(outcome.reports[joined.record] > 0))
            for index, rejection in sorted(outcome.rejections.items()):
                clock = int(outcome.clock[index])
                outcome.rejects[index] = self._count_reject(rejection.reason, clock)
            folded = outcome.records
            self.next_offset = int(folded.offset[-1]) + 1
            chunk = chunk.part(len(folded), len(chunk))
            yield outcome

    def _count_joined(self, joined: Joined) -> None:
        for period in set(joined.period.tolist()):
            same = joined.only(joined.period == period)
            tally = self._window(period).tally
            views = len(tally.n)
            if same.view is None:
                tally.n[0] += int(same.n.sum())
            else:
                np.add(tally.n, np.bincount(same.view, minlength=views), out=tally.n)
            counts = self._mechanism.tally(same.columns, same.view, views)
            np.add(tally.counts, counts, out=tally.counts)

    def _count_reject(self, reason: Reason, clock: int) -> int:
        """Count a rejected record in the window of the clock, or in the nearest open one.

        After the last window has closed, it is counted in the total. Returns its number there.
        """
        first, last = self.admission.closed_through + 1, self._plan.windows - 1
        number = min(max(self._plan.window_at(clock), first), last)
        count = self._total if first > last else self._window(number)
        of_reason = count.rejects.get(reason, 0) + 1
        count = replace(count, rejects={**count.rejects, reason: of_reason})
        if first > last:
            self._total = count
        else:
            self._open[number] = count
        return of_reason

    def _window(self, number: int) -> WindowCount:
        window = self._open.get(number)
        if window is None:
            window = self._open[number] = zero_count(self._plan, self.group)
        return window

    def _close(self, number: int, offset: int) -> ClosedWindow:
        count = self._open.pop(number, None)
        if count is not None:
            self._total += count
        return ClosedWindow(number, offset, self._zero if count is None else count, self._total)

    def state(self) -> PartitionState:
        """Return the checkpoint at ``next_offset``; later records do not change it."""
        admission = self.admission
        # Without accepted batches in open windows, a restore has no ids to find again.
        here = self.next_offset, admission.clock
        resume_from, resume_clock = admission.resume_point() or here
        return PartitionState(
            topic_id=self._topic_id,
            next_offset=self.next_offset,
            clock=admission.clock,
            closed_through=admission.closed_through,
            resume_from=resume_from,
            resume_clock=resume_clock,
            total=self._total,
            open={window: count + self._zero for window, count in sorted(self._open.items())},
        )
