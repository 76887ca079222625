"""The counts of one side of a comparison: some windows of a plan, view by view."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from calmstream.estimators.domain import Domain
from calmstream.estimators.mechanisms.base import Counts, Mechanism
from calmstream.estimators.plan.pilots import CollectionPlan
from calmstream.estimators.tally import Tally
from calmstream.estimators.view import View


@dataclass(frozen=True, slots=True, eq=False)
class Observed:
    """The reports on one view.

    Attributes:
        counts: shape (width,).
        repeats: mean number of reports of a device that is behind a report, at least 1; above 1 the
            sampling of devices adds that much more variance.
    """

    view: View
    mechanism: Mechanism
    n: int
    counts: Counts
    repeats: float = 1.0

    def same_question(self, other: Observed) -> bool:
        """Return whether both have the same view and mechanism, so that counts can be added."""
        return self.view == other.view and self.mechanism == other.mechanism


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """One side of a comparison."""

    domain: Domain
    views: tuple[Observed, ...]

    @property
    def reports(self) -> int:
        return sum(own.n for own in self.views)


def source(
    plan: CollectionPlan, tallies: Sequence[Tally], repeats: Sequence[Sequence[float]] | None = None
) -> Source:
    """Return the source of some windows.

    Args:
        repeats: per group and view `Observed.repeats`; None where every device reported once.
    """
    views = []
    for g, (group, mechanism, tally) in enumerate(
        zip(plan.groups, plan.mechanisms, tallies, strict=True)
    ):
        for v, view in enumerate(group.views):
            often = 1.0 if repeats is None else float(repeats[g][v])
            views.append(
                Observed(view, mechanism, int(tally.n[v]), np.asarray(tally.counts[v]), often)
            )
    return Source(plan.domain, tuple(views))


def pooled(first: Source, second: Source) -> tuple[Counts, ...] | None:
    """Return the sums of the counts of each view; None where the sources' views differ."""
    if len(first.views) != len(second.views):
        return None
    pairs = list(zip(first.views, second.views, strict=True))
    if not all(a.same_question(b) for a, b in pairs):
        return None
    return tuple(a.counts + b.counts for a, b in pairs)
