"""Lets a method learn its parameters from a pilot, an earlier plan for a part of the devices.

Some methods learn from the tables that the pilot published, others from its counts, which stay in
the counts topic.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from calmstream.common.clock import SystemClock
from calmstream.common.errors import InvalidInput, PlanError
from calmstream.consumer.subscribe.subscribe import plan_names, subscribe
from calmstream.estimators import methods
from calmstream.estimators.marginal import Marginal
from calmstream.estimators.methods.base import Follows, Piloted
from calmstream.estimators.wire.snapshot import Kind

if TYPE_CHECKING:
    from calmstream.broker.transport import Broker
    from calmstream.consumer.subscribe.assembler import Snapshot
    from calmstream.estimators.domain import Attributes
    from calmstream.estimators.plan import Plan
from contextlib import closing

from calmstream.broker.names import TopicNames
from calmstream.broker.transport import Broker
from calmstream.common.clock import Clock
from calmstream.consumer.read.kept import KeptCounts
from calmstream.estimators.plan import Plan
from calmstream.estimators.tally import Tally


@dataclass(frozen=True, slots=True)
class PublishedModel:
    """A model that answers with the tables of a snapshot (`base.Model`).

    Attributes:
        plan: the plan of the snapshot.
        snapshot: the published tables.
    """

    plan: Plan
    snapshot: Snapshot

    def marginal(self, attributes: Attributes) -> Marginal:
        names = [self.plan.domain.names[i] for i in attributes]
        if attributes not in self.plan.marginals:
            raise InvalidInput(f"the pilot does not publish the table over {', '.join(names)}")
        record = self.snapshot.record(*names)
        return Marginal(
            attributes,
            np.array(record.table),
            np.array(record.stderr),
            record.reports,
            tuple(record.flags),
        )


@dataclass(frozen=True, slots=True)
class PilotResult:
    """What a method learnt from a pilot.

    Attributes:
        parameters: options of the method for the next plan.
        reports: number of reports that were used.
        windows: number of closed windows of the pilot with these reports.
    """

    parameters: dict[str, Any]
    reports: int
    windows: int

    def others(self, pilot: Plan) -> int:
        """Return the approximate number of devices that never report under the pilot.

        With the guarantee w-event, another w-th part of the devices reports in every window.
        """
        parts = pilot.guarantee.windows
        remaining = max(parts - pilot.windows, 0)
        devices = round(self.reports / self.windows * remaining)
        if devices < 1:
            raise InvalidInput(
                "--users: every device may report before the pilot ends; state the number of "
                "reports that this plan will receive per window"
            )
        return devices


def learn(method: str, pilot: Plan, broker: Broker, namespace: str) -> PilotResult:
    """Let a method learn from the closed windows of its pilot."""
    learner = methods.get(method)
    if isinstance(learner, Follows):
        if pilot.method in learner.teachers:
            return _from_counts(learner, pilot, broker, namespace)
        teachers = ", ".join(learner.teachers)
    elif isinstance(learner, Piloted):
        if pilot.method == learner.pilot:
            return _from_snapshots(learner, pilot, broker, namespace)
        teachers = learner.pilot
    else:
        raise PlanError(f"method {method} does not learn from a pilot")
    raise PlanError(f"method {method} learns from {teachers}; the pilot is {pilot.method}")


def _from_counts(method: Follows, pilot: Plan, broker: Broker, namespace: str) -> PilotResult:
    """Learn from the counts of the pilot's closed windows."""
    counts = counted(pilot, broker, plan_names(pilot, namespace), SystemClock())
    if not counts.windows or not counts.reports:
        raise _no_reports(pilot)
    return PilotResult(
        method.follow(pilot.ordinary, counts.tallies[: pilot.ordinary_groups]),
        counts.reports,
        counts.windows,
    )


def _from_snapshots(method: Piloted, pilot: Plan, broker: Broker, namespace: str) -> PilotResult:
    """Learn from the tables of the pilot's latest running total."""
    totals = subscribe(
        pilot, broker, kinds=(Kind.TOTAL,), from_window="latest", follow=False, namespace=namespace
    )
    latest = next(iter(totals), None)
    if latest is None or latest.manifest.reports == 0:
        raise _no_reports(pilot)
    parameters = method.learn(pilot.ordinary.domain, PublishedModel(pilot, latest))
    return PilotResult(parameters, latest.manifest.reports, latest.manifest.window + 1)


def _no_reports(pilot: Plan) -> InvalidInput:
    return InvalidInput(f"plan {pilot.name}: no window with reports is final yet; wait for it")


@dataclass(frozen=True, slots=True)
class PilotCounts:
    """The counts of each group in all final windows, and the number of these windows."""

    tallies: tuple[Tally, ...]
    windows: int

    @property
    def reports(self) -> int:
        return sum(tally.reports for tally in self.tallies)


def counted(plan: Plan, broker: Broker, names: TopicNames, clock: Clock) -> PilotCounts:
    """Return the running total of the newest final window; reads once and writes nothing."""
    with closing(KeptCounts(plan, broker, names, clock)) as kept:
        kept.refresh()
        newest = kept.newest()
        total = None if newest is None else kept.tallies(newest)[1]
        if newest is None or total is None:
            return PilotCounts((), 0)
        return PilotCounts(tuple(total), newest + 1)
