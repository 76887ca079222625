"""The privacy loss that a device has spent, and whether it may report now.

The decision depends on time, the device's secret (through its slot) and its ledger, never on a
record; a device without a report therefore reveals nothing about its value.

Accounting across plans of one lineage. A plan's ``lineage_epsilon`` bounds what a device may spend
under the lineage: ever, or within any w windows where both plans are w-event. The plan's own
guarantee limits reports under the plan itself. Reports under *another* plan count in full, unless
both plans are w-event and the other's last report lies further back than the longer of the two
horizons. Until then all earlier reports of the other plan are counted, which can only be too much:
at worst a device does not report for a while.

Plans of version 2 cannot raise that bound afterwards. The ledger keeps the ``lineage_epsilon`` of
every plan of version 2 that the device answered, and the smallest of them binds every later plan of
the lineage, whatever that plan states and for as long as the ledger exists. A plan of version 1
leaves no bound: after it, only the bound of the present plan counts.

Signed and unsigned plans have separate ledgers, so that an unsigned plan that names the lineage of
a signed one cannot use it up. A plan's ``continues`` adds what both hold of other lineages. What
all lineages together may spend is the policy's business: :mod:`producer.device.totals`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from types import MappingProxyType
from typing import Any

import numpy as np

from estimators.plan import Plan
from producer.device.history import Sent
from producer.device.policy import EXACT, Policy, total
from producer.device.status import Status
from producer.device.totals import Totals

FOREVER = 0
"""Horizon of a plan with the guarantee ``once``."""


@dataclass(frozen=True, slots=True)
class Spent:
    """A device's reports under one plan.

    Attributes:
        window: number of the last window reported on.
        ends: when that window ends, seconds since the epoch.
        reports: how many reports so far, at least 1.
        epsilon: loss of each, decimal string.
        horizon: seconds that the plan's w windows last; 0 where the plan asks once.
        bound: the plan's ``lineage_epsilon``, decimal string, where it binds later plans; empty
            where it does not: plans of version 1, and entries from before bounds were kept.
    """

    window: int
    ends: int
    reports: int
    epsilon: str
    horizon: int
    bound: str = ""

    def __post_init__(self) -> None:
        if self.reports < 1 or self.horizon < 0 or self.window < 0:
            raise ValueError("reports are at least 1, windows and horizons at least 0")

    @property
    def total(self) -> Decimal:
        """Summed loss of all reports."""
        return EXACT.multiply(Decimal(self.reports), Decimal(self.epsilon))


Entries = Mapping[str, Spent]
"""Plan digest to what was spent under that plan; all of one lineage."""


@dataclass(frozen=True, slots=True)
class DeviceState:
    """Everything that a device stores.

    Attributes:
        secret: 16 bytes, never sent; ``repr`` omits it.
        lineages: lineage to what was spent under its unsigned plans.
        signed: lineage to what was spent under its signed plans.
        totals: what was spent over all lineages.
        policy: the application's; None until a reporter first uses the store.
        withdrawn: whether the person withdrew: nothing is reported.
        history: the latest reports, oldest first.
        generation: how often the state was written; an older copy has a smaller one.
    """

    secret: bytes = field(repr=False)
    lineages: Mapping[str, Entries] = field(default_factory=lambda: MappingProxyType({}))
    signed: Mapping[str, Entries] = field(default_factory=lambda: MappingProxyType({}))
    totals: Totals = field(default_factory=Totals)
    policy: Policy | None = None
    withdrawn: bool = False
    history: tuple[Sent, ...] = ()
    generation: int = 0

    def under(self, lineage: str, *, signed: bool = False) -> Entries:
        """Return what was spent under one lineage; empty for a new lineage."""
        return (self.signed if signed else self.lineages).get(lineage, {})

    def entries(self, plan: Plan, *, signed: bool) -> Entries:
        """Return what counts under a plan's lineage, with the lineages that the plan continues.

        Entries of the plan's own lineage have its plans' digests as keys; the others have keys of
        their own.
        """
        continued = {
            f"{lineage}/{kept}/{digest}": spent
            for lineage in plan.continues
            for kept in (True, False)
            for digest, spent in self.under(lineage, signed=kept).items()
        }
        return {**continued, **self.under(plan.lineage, signed=signed)}

    def spend(self, plan: Plan, window: int, *, root: str = "", now: int = 0) -> DeviceState:
        """Return the state after one more report.

        Args:
            plan: that was answered.
            window: its number.
            root: root key of its certificate; empty for an unsigned one.
            now: the clock, seconds since the epoch.
        """
        entries = self.under(plan.lineage, signed=bool(root))
        before = entries.get(plan.digest)
        reports = 1 + (before.reports if before else 0)
        ends = plan.window_end(window) // 1000
        spent = Spent(window, ends, reports, plan.epsilon, horizon(plan), bound(plan))
        changed = {plan.lineage: {**entries, plan.digest: spent}}
        totals = self.totals.add(ends, plan.epsilon, root, now, self.policy)
        if root:
            return replace(self, signed={**self.signed, **changed}, totals=totals)
        return replace(self, lineages={**self.lineages, **changed}, totals=totals)


def horizon(plan: Plan) -> int:
    """Return the seconds that the plan's guarantee spans; ``FOREVER`` under ``once``."""
    if plan.guarantee.kind == "once":
        return FOREVER
    return plan.guarantee.windows * plan.window


def bound(plan: Plan) -> str:
    """Return the bound that an answered plan sets for its lineage; empty if it sets none.

    Plans of version 1 set none: later plans of the lineage may state a larger sum.
    """
    return plan.lineage_epsilon if plan.version > 1 else ""


def allowance(plan: Plan, bounds: Iterable[str]) -> Decimal:
    """Return the most that a device may spend under the lineage when this plan asks.

    Args:
        plan: the plan that asks.
        bounds: of the plans that the device answered; empty ones do not bind.
    """
    return min(map(Decimal, (plan.lineage_epsilon, *filter(None, bounds))))


def counts(plan: Plan, window: int, ends: Any, other: int) -> Any:
    """Return whether an earlier report under another plan counts against a report now.

    Args:
        plan: the plan that asks now.
        window: its window.
        ends: end of the last window reported on under the other plan, seconds; an array gives an
            array.
        other: the other plan's horizon.
    """
    own = horizon(plan)
    if FOREVER in (own, other):
        return np.full(np.shape(ends), fill_value=True)
    return ends > plan.window_start(window) // 1000 - max(own, other)


def status(plan: Plan, slot: int, entries: Entries, now: int) -> Status:
    """Return whether a device may report, or why not.

    Args:
        plan: the plan that asks.
        slot: the device's slot under it.
        entries: what the device has spent under the plan's lineage.
        now: milliseconds since the epoch.
    """
    window, w = plan.window_at(now), plan.guarantee.windows
    if window < 0:
        return Status.NOT_STARTED
    if window >= plan.windows:
        return Status.OVER
    own = entries.get(plan.digest)
    # A clock that went back gives a negative distance, which also means no report.
    if own is not None and (plan.guarantee.kind == "once" or window - own.window < w):
        return Status.ALREADY_REPORTED
    if window % w != slot:
        return Status.NOT_ITS_SLOT
    spent = EXACT.add(spent_elsewhere(plan, window, entries), Decimal(plan.epsilon))
    if spent > allowance(plan, (entry.bound for entry in entries.values())):
        return Status.BUDGET_SPENT
    return Status.READY


def spent_elsewhere(plan: Plan, window: int, entries: Entries) -> Decimal:
    """Return the loss that counts from reports under other plans of the lineage."""
    others = (spent for digest, spent in entries.items() if digest != plan.digest)
    return total([s.total for s in others if counts(plan, window, s.ends, s.horizon)])
