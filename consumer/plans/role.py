"""The loop of a process that serves many plans in one role."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import structlog

from calmstream.broker.shared.broker import SharedBroker
from calmstream.broker.transport import Broker
from calmstream.common.clock import Clock
from calmstream.common.errors import BrokerUnreachable, FatalError, RecoverableError
from calmstream.common.health import RoleHealth
from calmstream.common.metrics import MetricDefinition, Metrics
from calmstream.consumer.metrics.registry import plan_label
from calmstream.consumer.plans.lanes import Lanes
from calmstream.consumer.plans.served_plan import IDLE_SECONDS, PlanState, ServedPlan, described
from calmstream.consumer.runtime.config import TallyConfig
from calmstream.consumer.runtime.context import PlanWorker, StopRequested
from calmstream.consumer.runtime.retry import RetryBudget
from calmstream.estimators.plan import Plan

_POLL_SECONDS = 0.5
"""Longest wait of one round. Records end a wait at once."""

IDLE_SECONDS_A_PLAN = 0.03
"""This time for each plan lies at least between two turns of a plan for which nothing arrives."""

_BUSY_POLL_SECONDS = 0.05
"""Longest wait while a plan takes its turn: the next one of this plan should follow soon. A much
shorter poll ends before the client has sent its requests, and would never bring a record."""

_BUSY_PAUSE = 0.005
"""Pause of a round without a poll."""

_QUIET_SECONDS = 1.0
_QUIET_POLL_SECONDS = 0.25
"""If nothing has arrived for a second, or if no plan can take more, polls are so far apart while
plans take their turns."""

_REPORT_SECONDS = 1.0
_RETRY_PAUSE = 0.1
_CLOSE_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class WorkerKind:
    """What a role does with each plan; one that ``reads`` polls the common reader all the time."""

    role: str
    make: Callable[[Plan, Broker, Metrics], PlanWorker]
    metrics: Callable[[Plan], Metrics]
    quarantined: MetricDefinition
    faults: MetricDefinition
    reads: bool = False


class PlansRole:
    """Serves every plan of a folder in one role; see `Role`. Tests call :meth:`turn` themselves."""

    def __init__(
        self,
        kind: WorkerKind,
        plans: Callable[[], Mapping[str, Plan]],
        shared: SharedBroker,
        clock: Clock,
        lanes: Lanes,
        config: TallyConfig,
    ) -> None:
        self.name = kind.role
        self.health = RoleHealth(self.name, clock)
        self._kind = kind
        self._plans = plans
        self._shared = shared
        self._clock = clock
        self._lanes = lanes
        self._session_seconds = config.session_seconds
        self._stop_seconds = config.stop_seconds
        self._retries = RetryBudget(clock, config.retry_seconds)
        self._served: dict[str, ServedPlan] = {}
        self._woken: set[str] = set()
        self._report_at = self._news_at = self._polled_at = clock.monotonic()
        self._unfinished: dict[str, str] = {}
        self._silent_seconds = 0.0
        self._lock = threading.Lock()
        self._log = structlog.get_logger("calmstream.plans").bind(role=kind.role)
        self.health.watched(self.silent_seconds)

    @property
    def states(self) -> dict[str, PlanState]:
        return {digest: served.state for digest, served in self._served.items()}

    def silent_seconds(self) -> float:
        """Return the age of the newest answer among plans that work; 0 while any gets answers."""
        return self._silent_seconds

    def wake(self, digest: str) -> None:
        """Let a plan take a turn soon; may be called from any thread."""
        with self._lock:
            self._woken.add(digest)

    def run(self, stop: threading.Event) -> None:
        try:
            while not stop.is_set():
                self.turn()
            self.finish()
        except BaseException:
            self.health.not_ready("failed")
            for served in self._served.values():
                served.abandon()
            raise
        finally:
            self._shared.close(_CLOSE_SECONDS)

    def turn(self) -> None:
        """Do one round: take plans up and give them back, poll, let workers take turns."""
        self._update_plans()
        self._collect()
        self._start_due()
        self._poll()
        self._report()

    def finish(self) -> None:
        """Let every worker write what it must and end, within ``stop_seconds``."""
        self.health.not_ready("draining")
        self._unfinished.clear()
        deadline = self._clock.monotonic() + self._stop_seconds
        for served in self._served.values():
            served.leave()
        while self._served and self._clock.monotonic() < deadline:
            self._collect()
            self._start_due()
            self._poll()
            self._forget_gone(put_back=False)
            self.health.turned()
        for served in self._served.values():
            self._note_unfinished(served.plan, f"not done within {self._stop_seconds:g} s")
        if self._unfinished:
            each = "; ".join(f"plan {plan}: {why}" for plan, why in self._unfinished.items())
            raise FatalError(f"stopped, but not all workers could finish: {each}")
        self._log.info("stopped")

    # The steps of a round

    def _update_plans(self) -> None:
        wanted = self._plans()
        self._forget_gone()
        for digest in self._served.keys() - wanted.keys():
            served = self._served[digest]
            if not served.stop.is_set():
                self._log.info("plan removed: draining", plan=plan_label(served.plan))
                served.leave()
        for digest, plan in wanted.items():
            if digest not in self._served:
                self._log.info("plan taken up", plan=plan_label(plan))
                broker, metrics = self._shared.plan(), self._kind.metrics(plan)
                self._served[digest] = ServedPlan(
                    plan, self._kind.make, broker, metrics, self._clock
                )

    def _forget_gone(self, *, put_back: bool = True) -> None:
        for digest, served in list(self._served.items()):
            if served.state in (PlanState.OVER, PlanState.GONE):
                served.give_back()
            if served.state is PlanState.GONE:
                del self._served[digest]
                if put_back:
                    self._log.info("plan given back", plan=plan_label(served.plan))

    def _collect(self) -> None:
        for served in self._served.values():
            error = served.collect()
            if error is not None and not isinstance(error, StopRequested):
                self._sort_out(served, error)

    def _sort_out(self, served: ServedPlan, error: BaseException) -> None:
        whole = isinstance(error, (MemoryError, BrokerUnreachable))
        if whole or not isinstance(error, Exception):
            raise error
        seconds = self._clock.monotonic() - self._shared.group.polled_at
        if seconds > self._session_seconds:
            raise FatalError(
                f"no poll for {seconds:.0f} s, the session is {self._session_seconds:g} s: others "
                "may own the partitions, so nothing more is written; start again"
            ) from error
        was_well = not served.reason
        pause = served.quarantine(error)
        if pause is not None:  # None: the plan was leaving or is retired, and does not begin anew
            served.metrics.inc(self._kind.faults)
            self._log.error(
                "plan in quarantine",
                plan=plan_label(served.plan),
                reason=served.reason,
                next_attempt_seconds=pause,
            )
        elif served.state is PlanState.GONE and was_well:
            self._note_unfinished(served.plan, described(error))

    def _note_unfinished(self, plan: Plan, reason: str) -> None:
        """Note that the worker of a plan that leaves has not written what it should."""
        self._unfinished[plan_label(plan)] = reason
        self._log.error("a worker could not finish", plan=plan_label(plan), reason=reason)

    def _start_due(self) -> None:
        with self._lock:
            woken, self._woken = self._woken, set()
        for digest in woken & self._served.keys():
            self._served[digest].wake()
        now = self._clock.monotonic()
        due = [served for served in self._served.values() if served.due(now)]
        # With many plans, those for which nothing arrives take turns less often.
        idle = max(IDLE_SECONDS, IDLE_SECONDS_A_PLAN * len(self._served))
        for served in sorted(due, key=lambda one: one.due_at):
            if not self._lanes.free():
                break
            served.start(self._lanes, idle)

    def _poll(self) -> None:
        """Poll the group and, for a role that reads, the common reader; wake who has news."""
        busy = self._lanes.busy() or any(
            served.due(self._clock.monotonic()) for served in self._served.values()
        )
        seconds, now = _BUSY_POLL_SECONDS if busy else _POLL_SECONDS, self._clock.monotonic()
        quiet = now - self._news_at > _QUIET_SECONDS or self._shared.group.all_behind
        if busy and quiet and now - self._polled_at < _QUIET_POLL_SECONDS:
            self._clock.sleep(_BUSY_PAUSE)  # a poll costs time for every partition
            return
        self._polled_at = now
        try:
            shares = self._shared.group.turn(0.0 if self._kind.reads else seconds)
            readers = self._shared.reader.turn(seconds) if self._kind.reads else set()
        except RecoverableError as error:
            self._retries.note_failure("the broker", error)
            self._clock.sleep(_RETRY_PAUSE)
            return
        self._retries.succeeded()
        if shares or readers:
            self._news_at = now
        for served in self._served.values():
            if served.broker.share in shares or not readers.isdisjoint(served.broker.readers):
                served.wake()
        if self._shared.group.idle and not self._kind.reads:
            self._clock.sleep(seconds)

    def _report(self) -> None:
        self.health.turned()
        now = self._clock.monotonic()
        if now < self._report_at:
            return
        self._report_at = now + _REPORT_SECONDS
        starting = 0
        troubles: dict[str, str] = {}
        silences = []
        for served in self._served.values():
            if served.state is PlanState.WORKING:
                silences.append(served.silent_seconds())
            starting += served.state is PlanState.WAITING
            verdict = served.verdict()
            if not verdict.well:
                troubles[plan_label(served.plan)] = verdict.detail
            if not served.given_back:
                served.metrics.set(self._kind.quarantined, served.at_fault())
        self._silent_seconds = min(silences, default=0.0)
        self.health.troubled(troubles)
        if starting:
            self.health.not_ready(f"starting {starting} of {len(self._served)} plans")
        elif troubles and len(troubles) == len(self._served):
            self.health.not_ready(f"none of {len(troubles)} plans is served")
        else:
            self.health.ready()
