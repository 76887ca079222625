"""Lets a method learn from a pilot, a plan that ran before its own.

Some methods learn from published tables, some from the counts in the state topic.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from broker.clock import SystemClock
from consumer.operations.pilot_counts import counted
from consumer.subscribe.subscribe import plan_names, subscribe
from estimators import methods
from estimators.errors import InvalidInput, PlanError
from estimators.marginal import Marginal
from estimators.methods.base import Follows, Piloted
from estimators.wire.snapshot import Kind

if TYPE_CHECKING:
    from broker.transport import Broker
    from consumer.subscribe.assembler import Snapshot
    from estimators.domain import Attributes
    from estimators.plan import Plan


@dataclass(frozen=True, slots=True)
class PublishedModel:
    """A model that knows only what a snapshot holds; see `estimators.methods.base.Model`."""

    plan: Plan
    snapshot: Snapshot

    def marginal(self, attributes: Attributes) -> Marginal:
        """The published table.

        Raises:
            InvalidInput: it was not published.
        """
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
        windows: closed windows of the pilot that hold them.
    """

    parameters: dict[str, Any]
    reports: int
    windows: int

    def others(self, pilot: Plan) -> int:
        """Return about how many devices the pilot never asks.

        Under w-event every window asks another w-th part of the devices.

        Raises:
            InvalidInput: the pilot may ask every device before it ends.
        """
        slots = pilot.guarantee.windows
        left = max(slots - pilot.windows, 0)
        found = round(self.reports / self.windows * left)
        if found < 1:
            raise InvalidInput(
                "--users: the pilot may ask every device before it ends; say how many reports a "
                "window of this plan will get"
            )
        return found


def learn(method: str, pilot: Plan, broker: Broker, namespace: str) -> PilotResult:
    """Let a method learn from the closed windows of its pilot.

    Args:
        method: registry name.
        pilot: the earlier plan; ``method`` must be able to learn from its method.
        broker: where the pilot's snapshots and state are; stays open.
        namespace: of the pilot's topics.

    Raises:
        PlanError: the method learns from no pilot, or not from one of that method.
        InvalidInput: no window of the pilot that holds reports is final yet, or a table that is
            needed was not published.
        RecoverableError, FatalError: as the broker's.
    """
    found = methods.get(method)
    if isinstance(found, Follows):
        if pilot.method in found.teachers:
            return _from_counts(found, pilot, broker, namespace)
        teachers = ", ".join(found.teachers)
    elif isinstance(found, Piloted):
        if pilot.method == found.pilot:
            return _from_snapshots(found, pilot, broker, namespace)
        teachers = found.pilot
    else:
        raise PlanError(f"method {method} learns nothing from a pilot")
    raise PlanError(f"method {method} learns from {teachers}; the pilot is {pilot.method}")


def _from_counts(method: Follows, pilot: Plan, broker: Broker, namespace: str) -> PilotResult:
    found = counted(pilot, broker, plan_names(pilot, namespace), SystemClock())
    if not found.windows or not found.reports:
        raise _nothing(pilot)
    return PilotResult(method.follow(pilot, found.tallies), found.reports, found.windows)


def _from_snapshots(method: Piloted, pilot: Plan, broker: Broker, namespace: str) -> PilotResult:
    totals = subscribe(
        pilot, broker, kinds=(Kind.TOTAL,), from_window="latest", follow=False, namespace=namespace
    )
    latest = next(iter(totals), None)
    if latest is None or latest.manifest.reports == 0:
        raise _nothing(pilot)
    parameters = method.learn(pilot.domain, PublishedModel(pilot, latest))
    return PilotResult(parameters, latest.manifest.reports, latest.manifest.window + 1)


def _nothing(pilot: Plan) -> InvalidInput:
    return InvalidInput(f"plan {pilot.name}: no window with reports is final yet; wait for it")
