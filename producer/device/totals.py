"""The privacy loss of a device over all lineages, within the policy's span of days and ever.

Amounts are exact decimals. They are counted by *root*, the key that identifies an operator. The
present time is the later of the clock and the *mark*, which is the latest time of the clock at
which a report was made. So a clock that goes back makes no report expire: reports that are made
meanwhile get the time of the mark.
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
"""Maximum number of entries for reports. If there are more, the older ones are joined in pairs, so
that a store stays small."""


@dataclass(frozen=True, slots=True)
class Recent:
    """The loss of one report, or of several reports that were joined.

    Attributes:
        ends: time from which the span is counted, seconds since the epoch.
        epsilon: the loss, decimal string.
        root: root key of the plan's operator; empty for unsigned plans.
    """

    ends: int
    epsilon: str
    root: str


@dataclass(frozen=True, slots=True)
class Remaining:
    """The epsilon that one root can still spend.

    Attributes:
        span: epsilon that it can spend within the span of days that ends now.
        ever: epsilon that it can spend for all time; None if there is no such limit.
    """

    span: Decimal
    ever: Decimal | None


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over all lineages, signed or not.

    Attributes:
        mark: latest time of the clock at which a report was made, seconds since the epoch.
        recent: the losses within the span, ascending by ``ends``.
        ever: the sum of all losses of each root, decimal string, by root.
    """

    mark: int = 0
    recent: tuple[Recent, ...] = ()
    ever: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    def present(self, now: int) -> int:
        """Return the present time in seconds: the later of the clock and the mark."""
        return max(now, self.mark)

    def remaining(self, policy: Policy, root: str, now: int) -> Remaining:
        """Return the epsilon that a root can still spend.

        The result is negative if more was spent than the present policy allows.

        Args:
            policy: states the limits.
            root: root key of the plan's operator; empty for unsigned plans.
            now: time of the clock, seconds since the epoch.
        """
        since = self.present(now) - policy.span_seconds
        both = [self._left(limits, since) for limits in (policy.overall, policy.limits(root))]
        ever = [left.ever for left in both if left.ever is not None]
        return Remaining(min(left.span for left in both), min(ever) if ever else None)

    def status(self, policy: Policy, root: str, epsilon: str, now: int) -> Status:
        """Return ``READY`` if the policy allows one more report, else the limit that it exceeds.

        Args:
            policy: states the limits.
            root: root key of the plan's operator; empty for unsigned plans.
            epsilon: privacy loss of the report, decimal string.
            now: time of the clock, seconds since the epoch.
        """
        left, loss = self.remaining(policy, root, now), Decimal(epsilon)
        if loss > left.span:
            return Status.SPAN_EPSILON
        if left.ever is not None and loss > left.ever:
            return Status.EVER_EPSILON
        return Status.READY

    def _left(self, limits: Limits, since: int) -> Remaining:
        """Return what these limits leave, if the span begins at ``since`` (seconds)."""
        counted = [r for r in self.recent if r.ends > since and limits.counts(r.root)]
        span = EXACT.subtract(limits.span, total([Decimal(r.epsilon) for r in counted]))
        if limits.ever is None:
            return Remaining(span, None)
        sums = [Decimal(text) for root, text in self.ever.items() if limits.counts(root)]
        return Remaining(span, EXACT.subtract(limits.ever, total(sums)))

    def add(self, ends: int, epsilon: str, root: str, now: int, policy: Policy | None) -> Totals:
        """Return the totals after one more report.

        Args:
            ends: end of the report's window, seconds since the epoch.
            epsilon: privacy loss of the report, decimal string.
            root: root key of its plan's operator; empty for unsigned plans.
            now: time of the clock, seconds since the epoch.
            policy: states how long reports count; None means without end.
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
        """Return totals in which every loss counts again, for a policy whose span becomes longer.

        The times of losses that were dropped are not known any more. They get the time of the mark,
        and so count as long as they should, or longer.
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
    """Join entries of the same root in pairs, in the older half, if there are too many entries.

    The joined entry has the later of the two times, so that no loss counts for too short a time.
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
