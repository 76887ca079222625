"""Writes the current set of each final window, from the counts topic alone; no final waits for it.

It follows from the counts of all windows through its own, in their order, so that any publisher
writes the same bytes.
"""

from __future__ import annotations

from concurrent.futures import Future
from itertools import chain

from calmstream.consumer.publish.build import SnapshotSet, build_current
from calmstream.consumer.publish.config import PublisherContext
from calmstream.consumer.publish.estimate_runner import Start
from calmstream.consumer.publish.follower import TopicFollower
from calmstream.consumer.publish.merge import MergedWindow
from calmstream.consumer.publish.set_writer import SetWriter
from calmstream.consumer.runtime.threads import begin
from calmstream.estimators.plan import Plan
from calmstream.estimators.tracking.tracker import Tracker
from calmstream.estimators.wire.counts import GroupCounts, decode_counts
from calmstream.estimators.wire.snapshot import Kind
from calmstream.estimators.wire.state import WindowCount

_MOST_WINDOWS = 16
"""Windows that are added in one turn, so that a long history holds up no final."""


def build(plan: Plan, tracker: Tracker, counts: list[GroupCounts]) -> SnapshotSet:
    current = tracker.current()
    merged = MergedWindow(
        counts[0].window,
        Kind.CURRENT,
        tuple(chain.from_iterable(one.revision for one in counts)),
        tuple(map(WindowCount, current.tallies)),
    )
    return build_current(plan, merged, current)


class CurrentSets:
    """Writes the current sets that are missing, in the order of windows."""

    def __init__(
        self, context: PublisherContext, follower: TopicFollower, writer: SetWriter, start: Start
    ) -> None:
        self._context = context
        self._follower = follower
        self._writer = writer
        self._start = start
        self._tracker = Tracker(context.plan)
        # Nothing is added to the tracker while a set is built.
        self._job: Future[SnapshotSet] | None = None
        self._window = -1
        # Offset of the manifest that was written last.
        self._sent = -1

    @property
    def pending(self) -> bool:
        """Whether a final has no current set yet, and may get one."""
        return self._job is not None or bool(self._follower.untracked.whole())

    def catch_up(self) -> None:
        """Add the first windows that have their sets, so that a long history is not held whole."""
        follower, untracked = self._follower, self._follower.untracked
        while (
            untracked.records(window := untracked.through + 1) is not None
            and follower.completeness.complete(window, Kind.FINAL)
            and follower.assembler.complete(window, Kind.CURRENT)
        ):
            self._add(window)

    def turn(self, *, idle: bool) -> bool:
        """Add windows, and write a set that is ready; return whether more may be due at once."""
        if self._job is not None:
            return self._job.done() and self._finish(self._job)
        if not idle or not self._follower.has_read(self._sent, -1):
            return False
        for _ in range(_MOST_WINDOWS):
            window = self._next()
            if window is None:
                return False
            self._job = self._add(window)
            if self._job is not None:
                break
        return True

    def _next(self) -> int | None:
        """Return the next window to add, if nothing before it can still come."""
        follower = self._follower
        window = next(iter(follower.untracked.whole()), None)
        if window is None or not follower.completeness.complete(window, Kind.FINAL):
            return None
        earlier = min(follower.merger.closed_windows(), default=window)
        return window if window <= earlier else None

    def _add(self, window: int) -> Future[SnapshotSet] | None:
        """Add a window; return a job for its set, if that is missing."""
        plan, records = self._context.plan, self._follower.untracked.records(window)
        assert records is not None
        self._follower.untracked.finish(window)
        self._window = window
        try:
            counts = [decode_counts(plan, records[group]) for group in sorted(records)]
            self._tracker.add(window, [one.tally for one in counts])
        except Exception as error:  # noqa: BLE001 - counts that others wrote stop no publisher
            self._failed(error)
            return None
        if self._follower.assembler.complete(window, Kind.CURRENT):
            return None
        return begin(lambda: build(plan, self._tracker, counts), self._start)

    def _finish(self, job: Future[SnapshotSet]) -> bool:
        try:
            found = job.result()
        except Exception as error:  # noqa: BLE001 - a final does not need its current set
            self._failed(error)
        else:
            # After a failure the job stays, and the next turn writes its set again.
            self._sent = self._writer.write(found)
        self._job = None
        return True

    def _failed(self, error: Exception) -> None:
        self._context.log.error(
            "a current set failed; please report it with the plan",
            window=self._window,
            error=f"{type(error).__name__}: {error}",
        )
