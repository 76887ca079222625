"""The ledger: the privacy loss that a device has spent, and whether it may report.

The decision depends on time, secret and ledger, never on a record. A report and the loss under the
*other* plans of its lineage are together at most the smallest ``lineage_epsilon`` among them. Loss
under another plan counts for ever, unless both are w-event: then until its last report is older
than the longer *horizon*. Signed and unsigned plans have separate ledgers, so that an unsigned plan
cannot use up the epsilon of a signed one's lineage.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from types import MappingProxyType
from typing import TYPE_CHECKING

from calmstream.producer.device.history import Sent, WaitingReport
from calmstream.producer.device.policy import EXACT, Policy, Status, total
from calmstream.producer.device.totals import DeviceTotals

if TYPE_CHECKING:
    from calmstream.estimators.plan import Plan

FOREVER = 0  # horizon of a plan with the guarantee ``once``


@dataclass(frozen=True, slots=True)
class Spent:
    """What a device has spent under one plan: ``reports`` of ``epsilon`` each, until ``window``."""

    window: int
    ends: int  # end of the window, in seconds
    reports: int
    epsilon: str
    horizon: int  # length of the plan's w windows, in seconds
    bound: str  # the plan's ``lineage_epsilon``, which applies to later plans

    def __post_init__(self) -> None:
        if self.reports < 1 or self.horizon < 0 or self.window < 0:
            raise ValueError("reports are at least 1, windows and horizons at least 0")

    @property
    def total(self) -> Decimal:
        return EXACT.multiply(Decimal(self.reports), Decimal(self.epsilon))


Entries = Mapping[str, Spent]  # of one lineage, by the plan's digest


@dataclass(frozen=True, slots=True)
class DeviceState:
    """Everything that a device stores.

    ``lineages`` is what was spent under unsigned plans, ``signed`` under signed ones. An older copy
    has a smaller ``generation``. ``policy`` is None until a reporter first uses the store.
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
        return (self.signed if signed else self.lineages).get(lineage, {})

    def entries(self, plan: Plan, *, signed: bool) -> Entries:
        """Return what was spent under a plan's lineage and those that it continues, by digest."""
        continued = {  # under longer keys: a digest can occur in several lineages
            f"{lineage}/{kept}/{digest}": spent
            for lineage in plan.continues
            for kept in (True, False)
            for digest, spent in self.under(lineage, signed=kept).items()
        }
        return {**continued, **self.under(plan.lineage, signed=signed)}

    def spend(self, plan: Plan, window: int, *, root: str = "", now: int = 0) -> DeviceState:
        """Return the state after one more report; ``root`` is empty for an unsigned plan."""
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
    if plan.guarantee.kind == "once":
        return FOREVER
    return plan.guarantee.windows * plan.window


def status(plan: Plan, slot: int, entries: Entries, now: int) -> Status:
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
    bounds = (plan.lineage_epsilon, *(entry.bound for entry in entries.values()))
    if spent > min(map(Decimal, bounds)):
        return Status.BUDGET_SPENT
    return Status.READY


def spent_elsewhere(plan: Plan, window: int, entries: Entries) -> Decimal:
    """Return the sum of the losses under other plans of the lineage, as far as they count."""
    own, start = horizon(plan), plan.window_start(window) // 1000
    return total(
        [
            spent.total
            for digest, spent in entries.items()
            if digest != plan.digest
            and (FOREVER in (own, spent.horizon) or spent.ends > start - max(own, spent.horizon))
        ]
    )
