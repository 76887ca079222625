"""What the designs of methods share: views are packed into groups, parameters are read.

If a plan has fewer groups than views, several views share a group, and a report states its view.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

import numpy as np

from calmstream.common.errors import PlanError
from calmstream.estimators.arrays import Floats
from calmstream.estimators.mechanisms.base import Mechanism
from calmstream.estimators.plan import Group
from calmstream.estimators.plan.numbers import as_number
from calmstream.estimators.view import View

MAX_VIEWS = 1 << 16
"""Maximum number of views of a plan, which lists them; a worker keeps a row of counters of each."""

PACKED = 4096
"""Maximum number of views in a group, if a method uses as few groups as possible."""


@dataclass(frozen=True, slots=True)
class Assigned:
    """A view, the mechanism that perturbs it and its weight among all views."""

    view: View
    mechanism: Mechanism
    share: int = 1


def pack(assigned: Sequence[Assigned], max_groups: int, *, separate: bool) -> tuple[Group, ...]:
    """Return groups of views with one mechanism each; views of a mechanism keep their order.

    ``separate``: a group for each view, as far as ``max_groups`` allows; otherwise few groups.
    """
    kinds: dict[Mechanism, list[Assigned]] = {}
    for entry in assigned:
        kinds.setdefault(entry.mechanism, []).append(entry)
    if len(kinds) > max_groups:
        raise PlanError(
            f"{len(kinds)} different table sizes need as many groups; at most {max_groups} topics "
            "are allowed: give attributes the same number of labels, or drop attributes"
        )
    parts = dict.fromkeys(kinds, 1)
    wanted = len(assigned) if separate else sum(-(-len(own) // PACKED) for own in kinds.values())
    for _ in range(min(max_groups, wanted) - len(kinds)):
        fullest = max(kinds, key=lambda kind: len(kinds[kind]) / parts[kind])
        parts[fullest] += 1
    groups = []
    for mechanism, own in kinds.items():
        for part in np.array_split(np.arange(len(own)), parts[mechanism]):
            members = [own[i] for i in part]
            shares = tuple(entry.share for entry in members)
            groups.append(Group(mechanism, tuple(e.view for e in members), shares))
    return tuple(groups)


def require_views(method: str, views: int, what: str) -> None:
    if views > MAX_VIEWS:
        raise PlanError(
            f"method {method} would collect {views:,} {what}; at most {MAX_VIEWS:,} are possible: "
            "lower k or drop attributes"
        )


def statistic(groups: Sequence[Group]) -> str:
    views = sum(len(group.views) for group in groups)
    counters = sum(len(g.views) * g.mechanism.width for g in groups)
    shared = "a group" if len(groups) == 1 else f"{len(groups):,} groups"
    return f"statistic: {counters:,} counters and {views:,} totals per window, in {shared}"


def only_parameters(method: str, parameters: Mapping[str, Any], *known: str) -> None:
    unknown = sorted(set(parameters) - set(known))
    if unknown:
        has = f"has {', '.join(known)}" if known else "has none"
        raise PlanError(f"method {method} {has}, not the parameter {unknown[0]!r}")


def number_parameter(
    parameters: Mapping[str, Any], name: str, default: float, low: float, high: float
) -> float:
    """Read a number from low to high, or the string that a plan writes for it."""
    value = as_number(parameters.get(name, default))
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        raise PlanError(f"parameter {name} must be a number, got {value!r}")
    if not low <= value <= high:
        raise PlanError(f"parameter {name} must lie between {low:g} and {high:g}, got {value!r}")
    return float(value)


def integer_shares(shares: Floats) -> tuple[int, ...]:
    """Return positive integers in these proportions, to about six digits."""
    scaled = np.maximum(np.rint(shares / shares.max() * (1 << 20)), 1)
    return tuple(int(s) for s in scaled)
