"""What a method learns from the snapshots of a pilot plan that ran before its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from consumer.subscribe import subscribe
from estimators import methods
from estimators.errors import InvalidInput, PlanError
from estimators.marginal import Marginal
from estimators.methods.base import Piloted
from estimators.wire.snapshot import Kind

if TYPE_CHECKING:
    from broker.transport import Broker
    from consumer.assembler import Snapshot
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


def learn(method: str, pilot: Plan, broker: Broker, namespace: str) -> dict[str, Any]:
    """The parameters for a method, from the total of all final windows of its pilot.

    Args:
        method: registry name.
        pilot: the plan that went before; its method must be the one that ``method`` learns from.
        broker: where the pilot's snapshots are; stays open.
        namespace: of the pilot's topics.

    Raises:
        PlanError: the method learns from no pilot, or from one of another method.
        InvalidInput: no window of the pilot that holds reports is final yet, or a table that is
            needed was not published.
        RecoverableError, FatalError: as the broker's.
    """
    found = methods.get(method)
    if not isinstance(found, Piloted):
        raise PlanError(f"method {method} learns nothing from a pilot")
    if pilot.method != found.pilot:
        raise PlanError(f"method {method} learns from {found.pilot}; the pilot is {pilot.method}")
    totals = subscribe(
        pilot, broker, kinds=(Kind.TOTAL,), from_window="latest", follow=False, namespace=namespace
    )
    latest = next(iter(totals), None)
    if latest is None or latest.manifest.reports == 0:
        raise InvalidInput(f"plan {pilot.name}: no window with reports is final yet; wait for it")
    return found.learn(pilot.domain, PublishedModel(pilot, latest))
