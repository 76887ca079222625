"""What a method learns from a pilot plan that ran before its own.

Some learn from its published tables, some from its counts, which are in its state topic.
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
class Lesson:
    """What a pilot taught.

    Attributes:
        parameters: for the plan that follows.
        reports: that it rests on.
        windows: of the pilot that are closed and hold them.
    """

    parameters: dict[str, Any]
    reports: int
    windows: int

    def others(self, pilot: Plan) -> int:
        """About how many devices the pilot never asks.

        One window of w-event asks one of w devices, another one in each.

        Raises:
            InvalidInput: its guarantee does not tell, or it asks everybody before it ends.
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


def learn(method: str, pilot: Plan, broker: Broker, namespace: str) -> Lesson:
    """What a method learns from the closed windows of its pilot.

    Args:
        method: registry name.
        pilot: the plan that went before; its method must be one that ``method`` learns from.
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
        known = ", ".join(found.teachers)
    elif isinstance(found, Piloted):
        if pilot.method == found.pilot:
            return _from_snapshots(found, pilot, broker, namespace)
        known = found.pilot
    else:
        raise PlanError(f"method {method} learns nothing from a pilot")
    raise PlanError(f"method {method} learns from {known}; the pilot is {pilot.method}")


def _from_counts(method: Follows, pilot: Plan, broker: Broker, namespace: str) -> Lesson:
    have = counted(pilot, broker, plan_names(pilot, namespace), SystemClock())
    if not have.windows or not have.reports:
        raise _nothing(pilot)
    return Lesson(method.follow(pilot, have.tallies), have.reports, have.windows)


def _from_snapshots(method: Piloted, pilot: Plan, broker: Broker, namespace: str) -> Lesson:
    totals = subscribe(
        pilot, broker, kinds=(Kind.TOTAL,), from_window="latest", follow=False, namespace=namespace
    )
    latest = next(iter(totals), None)
    if latest is None or latest.manifest.reports == 0:
        raise _nothing(pilot)
    taught = method.learn(pilot.domain, PublishedModel(pilot, latest))
    return Lesson(taught, latest.manifest.reports, latest.manifest.window + 1)


def _nothing(pilot: Plan) -> InvalidInput:
    return InvalidInput(f"plan {pilot.name}: no window with reports is final yet; wait for it")
