"""The ledger: the privacy loss that a device has spent, and the decision whether it may report.

The decision depends on the time, on the device's secret (through its slot) and on its ledger, never
on a record. So the absence of a report reveals nothing about the record.

A *lineage* is a series of plans that share the memory of devices. When a device reports, the loss
of this report and the loss under the *other* plans of the lineage are at most ``lineage_epsilon``:
the smallest one of all plans that it answered and of the present one. The loss under another plan
counts for ever, unless both plans are w-event: then until its last report is older than the longer
*horizon*, the time that a plan's w windows last. The plan's own guarantee limits its own reports.

Signed and unsigned plans have separate ledgers, so that an unsigned plan that names the lineage of
a signed one cannot use up its epsilon. If a plan has a field ``continues``, the loss under the
lineages that it names counts, too. `device.totals` limits the loss over all lineages.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from calmstream.producer.device.history import Sent, WaitingReport
from calmstream.producer.device.policy import EXACT, Policy, Status, total
from calmstream.producer.device.totals import DeviceTotals

if TYPE_CHECKING:
    from calmstream.estimators.plan import Plan

FOREVER = 0
"""Value of the horizon for a plan with the guarantee ``once``: its reports count for ever."""


@dataclass(frozen=True, slots=True)
class Spent:
    """The privacy loss that a device has spent under one plan.

    Attributes:
        window: number of the last window that the device reported on.
        ends: end of that window, seconds since the epoch.
        reports: number of reports so far, at least 1.
        epsilon: privacy loss of each report, decimal string.
        horizon: duration of the plan's w windows in seconds; 0 under the guarantee ``once``.
        bound: the plan's ``lineage_epsilon``, decimal string, which applies to later plans.
    """

    window: int
    ends: int
    reports: int
    epsilon: str
    horizon: int
    bound: str

    def __post_init__(self) -> None:
        if self.reports < 1 or self.horizon < 0 or self.window < 0:
            raise ValueError("reports are at least 1, windows and horizons at least 0")

    @property
    def total(self) -> Decimal:
        """The sum of the losses of all reports."""
        return EXACT.multiply(Decimal(self.reports), Decimal(self.epsilon))


Entries = Mapping[str, Spent]
"""The entries of one lineage: what was spent under each plan, by the plan's digest."""


@dataclass(frozen=True, slots=True)
class DeviceState:
    """Everything that a device stores.

    Attributes:
        secret: 16 bytes, never sent; ``repr`` omits it.
        lineages: what was spent under unsigned plans, by lineage.
        signed: what was spent under signed plans, by lineage.
        policy: the application's policy; None until a reporter first uses the store.
        waiting: reports that no gateway has taken yet.
        withdrawals: number of times that the person has withdrawn.
        generation: number of times that the state was written; an older copy has a smaller number.
    """

    secret: bytes = field(repr=False)
    lineages: Mapping[str, Entries] = field(default_factory=lambda: MappingProxyType({}))
    signed: Mapping[str, Entries] = field(default_factory=lambda: MappingProxyType({}))
    totals: DeviceTotals = field(default_factory=DeviceTotals)
    policy: Policy | None = None
    withdrawn: bool = False
    withdrawals: int = 0
    history: tuple[Sent, ...] = ()
    generation: int = 0
    waiting: tuple[WaitingReport, ...] = ()

    def under(self, lineage: str, *, signed: bool = False) -> Entries:
        """Return what was spent under one lineage; empty for a new lineage."""
        return (self.signed if signed else self.lineages).get(lineage, {})

    def entries(self, plan: Plan, *, signed: bool) -> Entries:
        """Return the entries of a plan's lineage and of the lineages that the plan continues.

        Keys are plan digests, and longer for other lineages: a digest can occur in several.
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

        ``root`` is empty for an unsigned plan; ``now`` is the clock in seconds since the epoch.
        """
        entries = self.under(plan.lineage, signed=bool(root))
        before = entries.get(plan.digest)
        reports = 1 + (before.reports if before else 0)
        ends = plan.window_end(window) // 1000
        spent = Spent(window, ends, reports, plan.epsilon, horizon(plan), plan.lineage_epsilon)
        changed = {plan.lineage: {**entries, plan.digest: spent}}
        totals = self.totals.add(ends, plan.epsilon, root, now, self.policy)
        if root:
            return replace(self, signed={**self.signed, **changed}, totals=totals)
        return replace(self, lineages={**self.lineages, **changed}, totals=totals)


def horizon(plan: Plan) -> int:
    """Return the duration of the plan's w windows in seconds, or ``FOREVER`` under ``once``."""
    if plan.guarantee.kind == "once":
        return FOREVER
    return plan.guarantee.windows * plan.window


def allowance(plan: Plan, bounds: Iterable[str]) -> Decimal:
    """Return the maximum epsilon that a device may spend under the lineage with a further report.

    ``bounds`` are those of the plans under which the device has reported.
    """
    return min(map(Decimal, (plan.lineage_epsilon, *bounds)))


def counts(plan: Plan, window: int, ends: Any, other: int) -> Any:
    """Return whether the reports under another plan count for a report in a window of this one.

    ``ends`` is the end of the last window reported on under the other plan in seconds, a number or
    an array, as the result is; ``other`` is that plan's horizon.
    """
    own = horizon(plan)
    if FOREVER in (own, other):
        return np.full(np.shape(ends), fill_value=True)
    return ends > plan.window_start(window) // 1000 - max(own, other)


def status(plan: Plan, slot: int, entries: Entries, now: int) -> Status:
    """Return whether a device with a slot and these entries may report now, or why not."""
    window, w = plan.window_at(now), plan.guarantee.windows
    if window < 0:
        return Status.NOT_STARTED
    if window >= plan.windows:
        return Status.OVER
    own = entries.get(plan.digest)
    # If the clock went back, the difference is negative; then the device does not report either.
    if own is not None and (plan.guarantee.kind == "once" or window - own.window < w):
        return Status.ALREADY_REPORTED
    if window % w != slot:
        return Status.NOT_ITS_SLOT
    spent = EXACT.add(spent_elsewhere(plan, window, entries), Decimal(plan.epsilon))
    if spent > allowance(plan, (entry.bound for entry in entries.values())):
        return Status.BUDGET_SPENT
    return Status.READY


def spent_elsewhere(plan: Plan, window: int, entries: Entries) -> Decimal:
    """Return the sum of the losses under other plans of the lineage, as far as they count."""
    others = (spent for digest, spent in entries.items() if digest != plan.digest)
    return total([s.total for s in others if counts(plan, window, s.ends, s.horizon)])
