"""The privacy loss of a device over all lineages, by *root*: lately and in total, exact decimals.

The loss of a report counts for the policy's ``span_days``. The present is the later of the clock
and the *mark*, the latest time of a report: a clock set back makes nothing expire sooner.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import chain
from types import MappingProxyType

from calmstream.producer.device.policy import EXACT, Policy, PolicyLimits, Status, total

MAX_RECENT = 4096  # entries; beyond, the older ones are joined in pairs


@dataclass(frozen=True, slots=True)
class Recent:
    """The loss of one report or of several that were joined."""

    counts_from: int  # seconds: end of the window, or the mark if that is later
    epsilon: str
    root: str  # empty if unsigned


@dataclass(frozen=True, slots=True)
class Remaining:
    """The epsilon that one root can still spend: within the span of days, and ever, if limited."""

    span: Decimal
    ever: Decimal | None


@dataclass(frozen=True, slots=True)
class DeviceTotals:
    """Sums over all lineages; ``recent`` had not expired at the last report, ascending in time."""

    mark: int = 0
    recent: tuple[Recent, ...] = ()
    spent_in_all: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    def present(self, now: int) -> int:
        return max(now, self.mark)

    def remaining(self, policy: Policy, root: str, now: int) -> Remaining:
        """Return what a root can still spend: the smaller of the overall limit and its own.

        It is negative if more was spent than the present policy allows.
        """
        span_start = self.present(now) - policy.span_seconds
        both = [self._left(limits, span_start) for limits in (policy.overall, policy.limits(root))]
        ever = [left.ever for left in both if left.ever is not None]
        return Remaining(min(left.span for left in both), min(ever) if ever else None)

    def status(self, policy: Policy, root: str, epsilon: str, now: int) -> Status:
        left, loss = self.remaining(policy, root, now), Decimal(epsilon)
        if loss > left.span:
            return Status.SPAN_EPSILON
        if left.ever is not None and loss > left.ever:
            return Status.EVER_EPSILON
        return Status.READY

    def _left(self, limits: PolicyLimits, span_start: int) -> Remaining:
        counted = [r for r in self.recent if r.counts_from > span_start and limits.apply_to(r.root)]
        span = EXACT.subtract(limits.span, total([Decimal(r.epsilon) for r in counted]))
        if limits.ever is None:
            return Remaining(span, None)
        sums = [Decimal(text) for root, text in self.spent_in_all.items() if limits.apply_to(root)]
        return Remaining(span, EXACT.subtract(limits.ever, total(sums)))

    def add(
        self, window_end: int, epsilon: str, root: str, now: int, policy: Policy | None
    ) -> DeviceTotals:
        """Return the totals after one more report; without a policy no report expires."""
        mark = self.present(now)
        # Without a policy, the span begins before every possible time.
        span_start = mark - policy.span_seconds if policy else -1
        kept = [r for r in self.recent if r.counts_from > span_start]
        kept.append(Recent(max(window_end, mark), epsilon, root))
        kept.sort(key=lambda r: r.counts_from)
        sums = {root: "0"} | dict(self.spent_in_all)
        sums[root] = f"{EXACT.add(Decimal(sums[root]), Decimal(epsilon)):f}"
        return DeviceTotals(mark, _joined(kept), MappingProxyType(sums))

    def restored(self) -> DeviceTotals:
        """Return totals in which no loss has expired, for a policy whose span becomes longer.

        Expired losses get the time of the mark, so that they expire when they should, or later.
        """
        dropped = []
        for root, text in self.spent_in_all.items():
            kept = total([Decimal(r.epsilon) for r in self.recent if r.root == root])
            rest = EXACT.subtract(Decimal(text), kept)
            if rest:
                dropped.append(Recent(self.mark, f"{rest:f}", root))
        recent = sorted(chain(self.recent, dropped), key=lambda r: r.counts_from)
        return DeviceTotals(self.mark, tuple(recent), self.spent_in_all)


def _joined(recent: list[Recent]) -> tuple[Recent, ...]:
    """Join the older half in pairs of one root, with the later time, if there are too many."""
    if len(recent) <= MAX_RECENT:
        return tuple(recent)
    half = len(recent) // 2
    waiting: dict[str, Recent] = {}
    result = recent[half:]
    for each in recent[:half]:
        earlier = waiting.pop(each.root, None)
        if earlier is None:
            waiting[each.root] = each
            continue
        epsilon = EXACT.add(Decimal(earlier.epsilon), Decimal(each.epsilon))
        result.append(Recent(each.counts_from, f"{epsilon:f}", each.root))
    return tuple(sorted([*result, *waiting.values()], key=lambda r: r.counts_from))
