"""Stores what is published now of several plans, one plan after another."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

from calmstream.common.clock import Clock
from calmstream.common.errors import CalmstreamError, RecoverableError
from calmstream.consumer.metrics.registry import plan_label
from calmstream.consumer.runtime.health import RoleHealth
from calmstream.consumer.runtime.worker import Alone
from calmstream.consumer.sink.target import Target
from calmstream.consumer.sink.worker import SinkTotals, SinkWorker, WithTarget
from calmstream.estimators.plan import Plan


class OnceForEach:
    """A role that lets a sink run to the end of the topic of each plan, and then ends.

    Args:
        worker: makes the sink of a plan, which is over at the end of its topic.

    Attributes:
        health: the role's health.
        totals: what was done for all plans; ``at_end`` unless the role was stopped.
        failed: why the results of a plan were not stored, by its label.
    """

    name = "sink"

    def __init__(
        self,
        plans: Iterable[Plan],
        worker: Callable[[Plan], SinkWorker],
        target: Target,
        clock: Clock,
    ) -> None:
        self.health = RoleHealth(self.name, clock)
        self.totals = SinkTotals()
        self.failed: dict[str, str] = {}
        self._plans = sorted(plans, key=lambda plan: (plan.name, plan.digest))
        self._worker = worker
        self._target = target

    def run(self, stop: threading.Event) -> None:
        """Store the results of each plan. A fault of one plan leaves the others."""
        for plan in self._plans:
            self.health.turned()
            if stop.is_set():
                return
            try:
                worker = self._worker(plan)
                WithTarget(Alone(worker, until_over=True), self._target).run(stop)
            except RecoverableError:
                raise
            except CalmstreamError as error:
                self.failed[plan_label(plan)] = str(error)
            else:
                self._add(worker.totals)
        self.totals.at_end = not stop.is_set()

    def _add(self, done: SinkTotals) -> None:
        self.totals.read += done.read
        self.totals.stored += done.stored
        self.totals.rows += done.rows
