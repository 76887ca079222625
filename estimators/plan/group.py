"""Parts of a plan: one group of devices, and what participation costs a device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from estimators.errors import PlanError
from estimators.mechanisms import build
from estimators.mechanisms.base import Mechanism
from estimators.view import View

MAX_SHARE = 1 << 32
"""Largest weight of a view."""


@dataclass(frozen=True, slots=True)
class Guarantee:
    """The privacy cost of participation for a device.

    ``once``: a device reports once under the plan's lineage, ever. ``w-event``: it reports in one
    window of every ``windows`` consecutive ones, in a slot fixed by a keyed hash, so that any w
    consecutive windows cost it at most epsilon.
    """

    kind: str = "once"
    windows: int = 1

    def __post_init__(self) -> None:
        if self.kind == "memoised":
            raise PlanError("guarantee.kind: memoised reports are not offered; use once or w-event")
        if self.kind not in ("once", "w-event"):
            raise PlanError(f"guarantee.kind: expected once or w-event, got {self.kind!r}")
        if self.kind == "once" and self.windows != 1:
            raise PlanError("guarantee.windows goes with w-event only")
        if self.kind == "w-event" and not 2 <= self.windows <= 10_000:
            raise PlanError(f"guarantee.windows: expected 2 to 10000, got {self.windows}")


@dataclass(frozen=True)
class Group:
    """One user group: one reports topic, one mechanism, one or more views.

    Attributes:
        mechanism: its spec as ``estimators.mechanisms.build`` reads it (name, cells, parameters).
        views: what the group's devices report on; a report carries the index when there are two
            or more.
        shares: one positive integer weight per view; a device lands on a view with probability
            share / sum of all shares of the plan.
    """

    mechanism: Mapping[str, Any]
    views: tuple[View, ...]
    shares: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.views or len(self.views) != len(self.shares):
            raise PlanError("a group needs one share per view and at least one view")
        if min(self.shares) < 1 or max(self.shares) > MAX_SHARE:
            raise PlanError(f"shares are integers from 1 to 2^32, got {min(self.shares)}")

    @property
    def share(self) -> int:
        """Weight of the whole group."""
        return sum(self.shares)

    def build(self, epsilon: str) -> Mechanism:
        """Return the mechanism under this epsilon; repeated calls return the same object.

        Raises:
            PlanError: there is no such mechanism.
        """
        known = self._built.get(epsilon)
        if known is None:
            known = self._built[epsilon] = build(self.mechanism, epsilon)
        return known

    @cached_property
    def _built(self) -> dict[str, Mechanism]:
        return {}

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object of a plan document."""
        views = [
            view.to_json() | {"share": share}
            for view, share in zip(self.views, self.shares, strict=True)
        ]
        return {"mechanism": dict(self.mechanism), "views": views}
