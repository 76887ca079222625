"""One window's tables, computed on a thread: a long estimate must not end the membership."""

from __future__ import annotations

import threading

from broker.clock import Clock
from consumer.publish.build import SnapshotSet, build_set
from consumer.publish.merge import MergedWindow
from estimators.plan import Plan


class EstimateJob:
    """A set that is built on a thread of its own; the thread starts in the constructor.

    The thread uses only the plan and the counts, and does not keep the process alive. So a job that
    is not wanted any more needs no cancelling.

    Args:
        plan: whose method and marginals.
        merged: the counts.
        clock: to measure how long it takes.

    Attributes:
        merged: the counts.
        seconds: how long the estimate took; 0 until it is done.
    """

    def __init__(self, plan: Plan, merged: MergedWindow, clock: Clock) -> None:
        self.merged = merged
        self.seconds = 0.0
        self._plan = plan
        self._clock = clock
        self._done = threading.Event()
        self._result: SnapshotSet | None = None
        self._error: Exception | None = None
        threading.Thread(target=self._run, name="estimate", daemon=True).start()

    def wait(self, seconds: float) -> bool:
        """Block until the job is done, at most this long; return whether it is."""
        return self._done.wait(seconds)

    def result(self) -> SnapshotSet:
        """Return the set after :meth:`wait` has returned True; raises what the method raised."""
        if self._error is not None:
            raise self._error
        assert self._result is not None
        return self._result

    def _run(self) -> None:
        began = self._clock.monotonic()
        try:
            self._result = build_set(self._plan, self.merged)
        except Exception as error:  # noqa: BLE001 - raised again where the result is asked for
            self._error = error
        self.seconds = self._clock.monotonic() - began
        self._done.set()
