"""Makes the tests of change of finals, beside the estimates: no set waits for them.

The tests of a window are computed from what was read of the counts topic, and from nothing else. So
a publisher that starts later, or another one, finds the windows without tests there, and writes the
same bytes.
"""

from __future__ import annotations

from functools import partial

from calmstream.consumer.metrics.publisher import WINDOWS_UNTESTED
from calmstream.consumer.publish.changes import changes_of
from calmstream.consumer.publish.config import PublisherContext
from calmstream.consumer.publish.follower import TopicFollower
from calmstream.consumer.publish.job import Job, Start
from calmstream.consumer.publish.set_writer import KeyedRecord, SetWriter
from calmstream.estimators.wire.snapshot import Kind


class ChangeTests:
    """Tests the finals that have no tests, one at a time, in the order of windows."""

    def __init__(
        self,
        context: PublisherContext,
        follower: TopicFollower,
        writer: SetWriter,
        start: Start,
    ) -> None:
        self._context = context
        self._follower = follower
        self._writer = writer
        self._start = start
        self._window = -1
        self._job: Job[KeyedRecord] | None = None
        # Window and offset of the record that was written last.
        self._sent = (-1, -1)

    @property
    def pending(self) -> bool:
        """Whether some window with counts has no tests yet, and may get them."""
        return bool(self._follower.untested.waiting())

    def turn(self, *, begin: bool) -> bool:
        """Write the record of tests that have ended; return whether one was written.

        The metric of windows without tests is set before.
        """
        if self._job is None and begin:
            self._job = self._next()
        self._context.metrics.set(WINDOWS_UNTESTED, len(self._follower.untested.waiting()))
        return self._job is not None and self._job.wait() and self._finish(self._job)

    def _next(self) -> Job[KeyedRecord] | None:
        """Return a job for the first window without tests, if all that it needs was read.

        The previous window is needed too. Its counts are left out only if they are lost, or belong
        to a final of a release that kept none.
        """
        follower, untested = self._follower, self._follower.untested
        sent, offset = self._sent
        if not follower.has_read(-1, offset):
            return None
        # It was read back. If it was not accepted, another program has replaced it: do not go on.
        untested.finish(sent)
        window = next(iter(untested.waiting()), None)
        if window is None:
            return None
        own, previous = untested.records(window), untested.records(window - 1)
        if follower.may_come(window):
            return None
        if own is None or not follower.completeness.complete(window, Kind.FINAL):
            untested.finish(window)
            return None
        if window > 0 and previous is None and follower.may_come(window - 1):
            return None
        self._window = window
        return Job(partial(changes_of, self._context.plan, own, previous), self._start)

    def _finish(self, job: Job[KeyedRecord]) -> bool:
        untested, window, written = self._follower.untested, self._window, False
        try:
            record = job.result()
        except Exception as error:  # noqa: BLE001 - the final is published, whatever they raise
            self._context.log.error(  # noqa: TRY400 - one line
                "the tests of change failed; please report it with the plan",
                window=window,
                error=f"{type(error).__name__}: {error}",
            )
            untested.finish(window)
        else:
            if untested.through < window:
                # After a failure the job stays, and the next turn writes its record again.
                offset = self._writer.deliver(self._context.names.counts, [record], 0)
                self._sent, written = (window, offset), True
        self._job = None
        return written
