"""Lets a method learn its parameters from the kept counts of a pilot, an earlier plan."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import Any

from calmstream.broker.names import TopicNames
from calmstream.broker.transport import Broker
from calmstream.common.clock import Clock, SystemClock
from calmstream.common.errors import InvalidInput, PlanError
from calmstream.consumer.read.kept import KeptCounts
from calmstream.consumer.subscribe.subscribe import plan_names
from calmstream.estimators import methods
from calmstream.estimators.methods.base import Follows
from calmstream.estimators.plan import Plan
from calmstream.estimators.tally import Tally


@dataclass(frozen=True, slots=True)
class PilotCounts:
    """The counts of each group in all final windows, and the number of these windows."""

    tallies: tuple[Tally, ...]
    windows: int

    @property
    def reports(self) -> int:
        return sum(tally.reports for tally in self.tallies)

    def others(self, pilot: Plan) -> int:
        """Return about how many devices never report: w-event asks a w-th part a window."""
        remaining = max(pilot.guarantee.windows - pilot.windows, 0)
        devices = round(self.reports / self.windows * remaining)
        if devices < 1:
            raise InvalidInput(
                "--users: every device may report before the pilot ends; state the number of "
                "reports that this plan will receive per window"
            )
        return devices


def learn(
    method: str, pilot: Plan, broker: Broker, namespace: str
) -> tuple[dict[str, Any], PilotCounts]:
    """Return what a method learns from the counts of its pilot's final windows, and those."""
    learner = methods.get(method)
    if not isinstance(learner, Follows):
        raise PlanError(f"method {method} does not learn from a pilot")
    if pilot.method not in learner.teachers:
        known = ", ".join(learner.teachers)
        raise PlanError(f"method {method} learns from {known}; the pilot is {pilot.method}")
    counts = counted(pilot, broker, plan_names(pilot, namespace), SystemClock())
    if not counts.reports:
        raise InvalidInput(f"plan {pilot.name}: no window with reports is final yet; wait for it")
    return learner.follow(pilot.ordinary, counts.tallies[: pilot.ordinary_groups]), counts


def counted(plan: Plan, broker: Broker, names: TopicNames, clock: Clock) -> PilotCounts:
    """Return the running total of the newest final window; reads once and writes nothing."""
    with closing(KeptCounts(plan, broker, names, clock)) as kept:
        kept.refresh()
        newest = max(kept.windows(), default=None)
        total = None if newest is None else kept.tallies(newest)[1]
        if newest is None or total is None:
            return PilotCounts((), 0)
        return PilotCounts(tuple(total), newest + 1)
