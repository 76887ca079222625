"""Estimates the tables of one window on another thread.

An estimate can take long. On the publisher's own thread it would delay the polls, and the publisher
would lose its membership of the consumer group.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

from calmstream.common.clock import Clock
from calmstream.consumer.publish.build import SnapshotSet, build_set
from calmstream.consumer.publish.merge import MergedWindow
from calmstream.estimators.plan import Plan


def on_a_thread(run: Callable[[], None]) -> None:
    """Run something on a thread of its own, which does not keep the process alive."""
    threading.Thread(target=run, name="estimate", daemon=True).start()


@dataclass(frozen=True, slots=True)
class EstimateRunner:
    """Where estimates and tests of change run.

    Attributes:
        start: runs a function on another thread, now or later.
        wait_seconds: maximum time for which a publisher waits for an estimate in one step.
        start_tests: as ``start``, for tests of change; no estimate may wait for them.
    """

    start: Callable[[Callable[[], None]], None] = on_a_thread
    wait_seconds: float = 1.0
    start_tests: Callable[[Callable[[], None]], None] = on_a_thread


class EstimateJob:
    """Builds a set of tables on another thread; the constructor starts it.

    The thread uses only the plan and the counts, and does not keep the process alive. So a job that
    is not needed any more can simply be dropped.

    Attributes:
        merged: the counts of the window.
        seconds: duration of the estimate; 0 until it is done.
    """

    def __init__(
        self,
        plan: Plan,
        merged: MergedWindow,
        clock: Clock,
        *,
        counts: bool = False,
        start: Callable[[Callable[[], None]], None] = on_a_thread,
    ) -> None:
        self.merged = merged
        self.seconds = 0.0
        self._plan = plan
        self._clock = clock
        self._counts = counts
        self._done = threading.Event()
        self._result: SnapshotSet | None = None
        self._error: Exception | None = None
        start(self._run)

    def wait(self, seconds: float) -> bool:
        """Block until the job is done, for at most this many seconds; return whether it is done."""
        return self._done.wait(seconds)

    def result(self) -> SnapshotSet:
        """Return the set. Call it after :meth:`wait` has returned True."""
        if self._error is not None:
            raise self._error
        assert self._result is not None
        return self._result

    def _run(self) -> None:
        began = self._clock.monotonic()
        try:
            self._result = build_set(self._plan, self.merged, counts=self._counts)
        except Exception as error:  # noqa: BLE001 - ``result`` raises it again
            self._error = error
        self.seconds = self._clock.monotonic() - began
        self._done.set()
