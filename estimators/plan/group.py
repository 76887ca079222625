"""Parts of a plan: a group of devices, and the guarantee on a device's privacy loss over time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from calmstream.common.errors import PlanError
from calmstream.estimators.mechanisms.base import Mechanism
from calmstream.estimators.view import View

MAX_SHARE = 1 << 32  # so that sums of shares fit in 64 bits


@dataclass(frozen=True, slots=True)
class Guarantee:
    """The privacy cost of participation for a device.

    With the kind ``once`` it reports once, ever, under all plans of a lineage. With ``w-event`` it
    reports in one of every ``windows`` consecutive windows, which a keyed hash of its secret
    determines, so any that many cost it at most epsilon.
    """

    kind: str = "once"
    windows: int = 1

    def __post_init__(self) -> None:
        if self.kind == "memoised":
            raise PlanError("guarantee.kind: memoised reports are not offered; use once or w-event")
        if self.kind not in ("once", "w-event"):
            raise PlanError(f"guarantee.kind: expected once or w-event, got {self.kind!r}")
        if self.kind == "once" and self.windows != 1:
            raise PlanError("guarantee.windows must be 1 with the kind once")
        if self.kind == "w-event" and not 2 <= self.windows <= 10_000:
            raise PlanError(f"guarantee.windows: expected 2 to 10000, got {self.windows}")


@dataclass(frozen=True, slots=True)
class Group:
    """One group of devices: one topic for their reports, one mechanism, one or more views.

    A device is assigned to a view with probability share / sum of all shares of the plan.
    """

    mechanism: Mechanism
    views: tuple[View, ...]  # if there are two or more, a report states its view
    shares: tuple[int, ...]  # a positive integer per view

    def __post_init__(self) -> None:
        if not self.views or len(self.views) != len(self.shares):
            raise PlanError("a group needs one share per view and at least one view")
        if min(self.shares) < 1 or max(self.shares) > MAX_SHARE:
            raise PlanError(f"shares are integers from 1 to 2^32, got {min(self.shares)}")

    @property
    def share(self) -> int:
        return sum(self.shares)

    def at(self, epsilon: str) -> Group:
        """Return the group with this privacy loss of a report."""
        if self.mechanism.epsilon == epsilon:
            return self
        return replace(self, mechanism=replace(self.mechanism, epsilon=epsilon))

    def to_json(self) -> dict[str, Any]:
        pairs = zip(self.views, self.shares, strict=True)
        views = [view.to_json() | {"share": share} for view, share in pairs]
        return {"mechanism": self.mechanism.to_json(), "views": views}
