"""From views with mechanisms to groups: how many topics a method uses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb
from typing import TYPE_CHECKING

import numpy as np

from estimators.errors import PlanError
from estimators.mechanisms import build, spec
from estimators.plan import Group

if TYPE_CHECKING:
    from estimators.mechanisms.base import Mechanism
    from estimators.view import View

MAX_VIEWS = 1 << 16
"""Most views of a plan: a plan lists them, and a worker keeps a counter row of each."""

PACKED = 4096
"""Views that share a group where all views are alike."""


@dataclass(frozen=True, slots=True)
class Assigned:
    """A view, the mechanism that perturbs it and its weight among all views."""

    view: View
    mechanism: Mechanism
    share: int = 1


def pack(assigned: Sequence[Assigned], max_groups: int, *, separate: bool) -> tuple[Group, ...]:
    """Return groups of views with one mechanism each, in the given order within a mechanism.

    Args:
        assigned: at least one view.
        max_groups: most groups.
        separate: a group per view while they fit; else as few groups as hold 4096 views each.

    Raises:
        PlanError: more different mechanisms than groups allowed.
    """
    kinds: dict[Mechanism, list[Assigned]] = {}
    for entry in assigned:
        kinds.setdefault(entry.mechanism, []).append(entry)
    if len(kinds) > max_groups:
        raise PlanError(
            f"{len(kinds)} different table sizes need as many groups; at most {max_groups} topics "
            "are allowed: make cardinalities equal or drop attributes"
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
            groups.append(Group(spec(mechanism), tuple(e.view for e in members), shares))
    return tuple(groups)


def require_views(method: str, views: int, what: str) -> None:
    """Refuse absurd numbers of views before any is made.

    Raises:
        PlanError: with the number.
    """
    if views > MAX_VIEWS:
        raise PlanError(
            f"method {method} would collect {views:,} {what}; at most {MAX_VIEWS:,} are planned: "
            "lower k or drop attributes"
        )


def statistic(groups: Sequence[Group], epsilon: str) -> str:
    """Return what a plan counts, as one line of text."""
    views = sum(len(group.views) for group in groups)
    counters = sum(len(g.views) * build(g.mechanism, epsilon).width for g in groups)
    shared = "a group" if len(groups) == 1 else f"{len(groups):,} groups"
    return f"statistic: {counters:,} counters and {views:,} totals per window, in {shared}"


def coverage(d: int, k: int, touched: int) -> int:
    """Return the number of k-way marginals that contain ``touched`` given attributes."""
    return comb(d - touched, k - touched)
