"""Makes the tests of change of finals, beside the estimates: no set waits for them.

The tests of a window are computed from what was read of the counts topic, and from nothing else. So
a publisher that starts later, or another one, finds the windows without tests there, and writes the
same bytes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

from calmstream.broker.names import TopicNames
from calmstream.consumer.publish.changes import try_changes
from calmstream.consumer.publish.follower import TopicFollower
from calmstream.consumer.publish.measures import Measures
from calmstream.consumer.publish.set_writer import KeyedRecord, SetWriter
from calmstream.estimators.plan import Plan
from calmstream.estimators.wire.snapshot import Kind


class TestsJob:
    """Tests one window on another thread; the constructor starts it.

    The thread uses only the plan and the given records, so that a job can simply be dropped.

    Args:
        previous: those of the window before; None where they are not kept.

    Attributes:
        window: number of the window.
        record: key and value of the record of tests, once the job is done; None after an error.
        error: the error that ended the tests.
    """

    __test__ = False  # no class of tests for pytest

    def __init__(
        self,
        plan: Plan,
        window: int,
        own: Mapping[int, bytes],
        previous: Mapping[int, bytes] | None,
        start: Callable[[Callable[[], None]], None],
    ) -> None:
        self.window = window
        self.record: KeyedRecord | None = None
        self.error: Exception | None = None
        self._given = (plan, own, previous)
        self._done = threading.Event()
        start(self._run)

    @property
    def done(self) -> bool:
        """Whether the tests have ended."""
        return self._done.is_set()

    def _run(self) -> None:
        self.record, self.error = try_changes(*self._given)
        self._done.set()


class ChangeTests:
    """Tests the finals that have no tests, one at a time, in the order of windows."""

    def __init__(
        self,
        plan: Plan,
        names: TopicNames,
        follower: TopicFollower,
        writer: SetWriter,
        measures: Measures,
        start: Callable[[Callable[[], None]], None],
    ) -> None:
        self._plan = plan
        self._names = names
        self._follower = follower
        self._writer = writer
        self._measures = measures
        self._start = start
        self._job: TestsJob | None = None
        # Window and offset of the record that was written last.
        self._sent = (-1, -1)

    @property
    def pending(self) -> bool:
        """Whether some window with counts has no tests yet, and may get them."""
        return self._follower.untested.next() is not None

    def turn(self, *, begin: bool) -> bool:
        """Write the record of tests that have ended; return whether one was written.

        The metric of windows without tests is set before.
        """
        if self._job is None and begin:
            self._job = self._next()
        self._measures.untested(self._follower.untested.waiting)
        return self._job is not None and self._job.done and self._finish(self._job)

    def _next(self) -> TestsJob | None:
        """Return a job for the first window without tests, if all that it needs was read.

        The previous window is needed too. Its counts are left out only if they are lost, or belong
        to a final of a release that kept none.
        """
        follower, untested = self._follower, self._follower.untested
        sent, offset = self._sent
        if not follower.has_read(-1, offset):
            return None
        # It was read back. If it was not accepted, another program has replaced it: do not go on.
        untested.tested(sent)
        window = untested.next()
        if window is None:
            return None
        own, previous = untested.records(window), untested.records(window - 1)
        if follower.may_come(window):
            return None
        if own is None or not follower.completeness.complete(window, Kind.FINAL):
            untested.tested(window)
            return None
        if window > 0 and previous is None and follower.may_come(window - 1):
            return None
        return TestsJob(self._plan, window, own, previous, self._start)

    def _finish(self, job: TestsJob) -> bool:
        untested, written = self._follower.untested, False
        if job.error is not None:
            self._measures.tests_failed(job.window, job.error)
            untested.tested(job.window)
        elif job.record is not None and untested.through < job.window:
            # After a failure the job stays, and the next turn writes its record again.
            offset = self._writer.deliver(self._names.counts, [job.record], 0)
            self._sent, written = (job.window, offset), True
        self._job = None
        return written
