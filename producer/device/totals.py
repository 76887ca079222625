"""What a device has spent over all lineages: within a span of days, and ever. Exact decimals.

Time is the later of the clock and the *mark*, the latest clock at which a report was made. So a
clock that goes back frees nothing: reports made meanwhile count from the mark on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import chain
from types import MappingProxyType

from producer.device.policy import EXACT, Limits, Policy, total
from producer.device.status import Status

MAX_RECENT = 4096
"""Reports that are kept one by one. Older ones are joined, so that a store stays small."""


@dataclass(frozen=True, slots=True)
class Recent:
    """One report, or several that were joined.

    Attributes:
        ends: second since the epoch from which the span is counted.
        epsilon: decimal string.
        root: of the plan's operator; empty for unsigned plans.
    """

    ends: int
    epsilon: str
    root: str


@dataclass(frozen=True, slots=True)
class Remaining:
    """What one root can still spend.

    Attributes:
        span: within the span that ends now.
        ever: ever; None where there is no such limit.
    """

    span: Decimal
    ever: Decimal | None


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over all lineages, signed or not.

    Attributes:
        mark: latest clock at which a report was made, seconds since the epoch.
        recent: reports within the span, ascending by ``ends``.
        ever: root to the sum of all its reports, decimal string.
    """

    mark: int = 0
    recent: tuple[Recent, ...] = ()
    ever: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    def present(self, now: int) -> int:
        """Return the present time in seconds: the later of the clock and the mark."""
        return max(now, self.mark)

    def remaining(self, policy: Policy, root: str, now: int) -> Remaining:
        """Return what a root can still spend; below 0 where more was spent than is allowed now.

        Args:
            policy: states the limits.
            root: of the plan that asks; empty for unsigned plans.
            now: the clock, seconds since the epoch.
        """
        since = self.present(now) - policy.span_seconds
        both = [self._left(limits, since) for limits in (policy.overall, policy.limits(root))]
        ever = [left.ever for left in both if left.ever is not None]
        return Remaining(min(left.span for left in both), min(ever) if ever else None)

    def status(self, policy: Policy, root: str, epsilon: str, now: int) -> Status:
        """Return whether one more report fits the policy: ``READY``, or which limit it exceeds.

        Args:
            policy: states the limits.
            root: of the plan that asks; empty for unsigned plans.
            epsilon: of the report, decimal string.
            now: the clock, seconds since the epoch.
        """
        left, asked = self.remaining(policy, root, now), Decimal(epsilon)
        if asked > left.span:
            return Status.SPAN_EPSILON
        if left.ever is not None and asked > left.ever:
            return Status.EVER_EPSILON
        return Status.READY

    def _left(self, limits: Limits, since: int) -> Remaining:
        counted = [r for r in self.recent if r.ends > since and limits.counts(r.root)]
        span = EXACT.subtract(limits.span, total([Decimal(r.epsilon) for r in counted]))
        if limits.ever is None:
            return Remaining(span, None)
        sums = [Decimal(text) for root, text in self.ever.items() if limits.counts(root)]
        return Remaining(span, EXACT.subtract(limits.ever, total(sums)))

    def add(self, ends: int, epsilon: str, root: str, now: int, policy: Policy | None) -> Totals:
        """Return the totals after one more report.

        Args:
            ends: of its window, seconds since the epoch.
            epsilon: of the report, decimal string.
            root: of its plan; empty for unsigned plans.
            now: the clock, seconds since the epoch.
            policy: says how long reports count; None keeps all.
        """
        mark = self.present(now)
        since = mark - policy.span_seconds if policy else -1
        kept = [r for r in self.recent if r.ends > since]
        kept.append(Recent(max(ends, mark), epsilon, root))
        kept.sort(key=lambda r: r.ends)
        sums = {root: "0"} | dict(self.ever)
        sums[root] = f"{EXACT.add(Decimal(sums[root]), Decimal(epsilon)):f}"
        return Totals(mark, _joined(kept), MappingProxyType(sums))

    def restored(self) -> Totals:
        """Return totals in which everything ever spent counts, what was dropped from the mark on.

        For a policy whose span becomes longer.
        """
        dropped = []
        for root, text in self.ever.items():
            kept = total([Decimal(r.epsilon) for r in self.recent if r.root == root])
            rest = EXACT.subtract(Decimal(text), kept)
            if rest:
                dropped.append(Recent(self.mark, f"{rest:f}", root))
        recent = sorted(chain(self.recent, dropped), key=lambda r: r.ends)
        return Totals(self.mark, tuple(recent), self.ever)


def _joined(recent: list[Recent]) -> tuple[Recent, ...]:
    """Join reports of one root in pairs among the older half, where there are too many.

    The joined one has the later end: it counts longer than either, never shorter.
    """
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
        result.append(Recent(each.ends, f"{epsilon:f}", each.root))
    return tuple(sorted([*result, *waiting.values()], key=lambda r: r.ends))
