"""One plan of many: what its worker does next, and what a fault means for it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from enum import Enum

from calmstream.broker.shared.broker import PlanBroker
from calmstream.broker.transport import Broker
from calmstream.common.clock import Clock
from calmstream.common.errors import CalmstreamError, PlanRetired
from calmstream.common.health import Verdict
from calmstream.common.metrics import Metrics
from calmstream.consumer.plans.lanes import Lanes
from calmstream.consumer.runtime.context import PlanWorker
from calmstream.estimators.plan import Plan

FIRST_PAUSE = 5.0
LONGEST_PAUSE = 300.0
"""First and longest pause in seconds before a plan in quarantine is tried again; each is twice the
one before."""

STEADY_SECONDS = 600.0
"""After a plan has worked for this long, its next pause is the first one again."""

IDLE_SECONDS = 1.0
"""Least time between two turns of a plan for which nothing has arrived."""


class PlanState(Enum):
    """What a plan does; in quarantine it waits to begin anew after a fault."""

    WAITING = "waiting"
    QUARANTINED = "quarantined"
    WORKING = "working"
    LEAVING = "leaving"
    OVER = "over"
    GONE = "gone"


class ServedPlan:
    """A plan and its worker. One thread calls all methods; the worker's calls run on the lanes."""

    def __init__(
        self,
        plan: Plan,
        make: Callable[[Plan, Broker, Metrics], PlanWorker],
        broker: PlanBroker,
        metrics: Metrics,
        clock: Clock,
    ) -> None:
        self.plan = plan
        self.broker = broker
        self.metrics = metrics
        self.given_back = False
        self.state = PlanState.WAITING
        self.reason = ""
        self.stop = threading.Event()
        self._make = make
        self._clock = clock
        self._worker: PlanWorker | None = None
        self._task: Future[bool] | None = None
        self._ending = self._woken = False
        self.due_at = clock.monotonic()
        self._idle_seconds = IDLE_SECONDS
        self._pause = FIRST_PAUSE
        self._working_since = 0.0

    def wake(self) -> None:
        """Note that something has arrived for the plan; one that is due keeps its place."""
        self._woken = True
        if self.state is PlanState.WORKING:
            self.due_at = min(self.due_at, self._clock.monotonic())

    def leave(self) -> None:
        """Finish the worker's work, as soon as its present turn has ended."""
        self.stop.set()
        if self.state not in (PlanState.GONE, PlanState.LEAVING):
            if self._worker is None and self._task is None:
                self.state = PlanState.GONE
            else:
                self.state = PlanState.LEAVING
            self.due_at = self._clock.monotonic()

    def due(self, now: float) -> bool:
        return self._task is None and self._call() is not None and now >= self.due_at

    def start(self, lanes: Lanes, idle_seconds: float = IDLE_SECONDS) -> None:
        self._idle_seconds = idle_seconds
        call = self._call()
        assert call is not None, "only a plan that is due is started"
        self._ending, self._woken = call == self._finish, False
        self._task = lanes.start(call)

    def collect(self) -> BaseException | None:
        """Note how a call has ended, if one has; return its error."""
        task = self._task
        if task is None or not task.done():
            return None
        self._task, error = None, task.exception()
        if self._ending:
            self._worker = None
            over = PlanState.OVER if error is None else PlanState.WORKING
            self.state = PlanState.GONE if self.stop.is_set() else over
        elif self.state is PlanState.LEAVING and self._worker is None:
            self.state = PlanState.GONE
        elif error is None and self.state is not PlanState.LEAVING:
            self._went_well(task.result())
        return error

    def quarantine(self, error: BaseException) -> float | None:
        """Stop the worker after a fault; return the pause before it begins anew, if it will."""
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.abandon()
        now = self._clock.monotonic()
        if self.state is PlanState.LEAVING:
            self.state = PlanState.GONE
        elif isinstance(error, PlanRetired):
            self.state = PlanState.OVER
        if self.state in (PlanState.GONE, PlanState.OVER):
            return None
        if self.state is PlanState.WORKING and now - self._working_since > STEADY_SECONDS:
            self._pause = FIRST_PAUSE
        pause, self._pause = self._pause, min(2 * self._pause, LONGEST_PAUSE)
        self.state, self.reason = PlanState.QUARANTINED, described(error)
        self.due_at = now + pause
        return pause

    def give_back(self) -> None:
        if not self.given_back:
            self.given_back = True
            self.broker.close()
            self.metrics.remove()

    def abandon(self) -> None:
        """End without writing; called when the process fails."""
        if self._worker is not None and self._task is None:
            self._worker.abandon()

    def verdict(self) -> Verdict:
        if self.state is PlanState.QUARANTINED:
            pause = max(self.due_at - self._clock.monotonic(), 0.0)
            return Verdict(False, f"quarantined: {self.reason} (next attempt in {pause:.0f} s)")
        worker = self._worker
        if self.state is PlanState.WORKING and worker is not None:
            live = worker.health.live()
            return worker.health.readiness() if live.well else live
        return Verdict(self.state is PlanState.OVER, self.state.value)

    def at_fault(self) -> bool:
        """Return whether the plan is in quarantine, or its topics are not as it needs them."""
        worker = self._worker
        return self.state is PlanState.QUARANTINED or bool(worker and worker.health.fault)

    def silent_seconds(self) -> float:
        """Return the age of the worker's last answer from a broker while requests fail, or 0."""
        worker = self._worker
        return worker.health.silent_seconds if worker is not None else 0.0

    def _call(self) -> Callable[[], bool] | None:
        if self.state in (PlanState.WAITING, PlanState.QUARANTINED):
            return self._begin
        if self.state is PlanState.WORKING:
            return self._turn
        return self._finish if self.state is PlanState.LEAVING else None

    def _begin(self) -> bool:
        self._worker = self._make(self.plan, self.broker, self.metrics)
        self._worker.start(self.stop)
        return True

    def _turn(self) -> bool:
        assert self._worker is not None
        return self._worker.turn()

    def _finish(self) -> bool:
        if self._worker is not None:
            self._worker.finish()
        return False

    def _went_well(self, more: bool) -> None:
        now = self._clock.monotonic()
        if self.state is not PlanState.WORKING:
            self.state, self._working_since, self.reason = PlanState.WORKING, now, ""
        assert self._worker is not None
        if self._worker.over():
            self.state = PlanState.LEAVING
            self.due_at = now
        else:
            self.due_at = now if more or self._woken else now + self._idle_seconds


def described(error: BaseException) -> str:
    """Return an error in words, never empty."""
    if isinstance(error, CalmstreamError):
        return str(error) or type(error).__name__
    first = next(iter(str(error).splitlines()), "")
    return f"internal error, {type(error).__name__}: {first}"
