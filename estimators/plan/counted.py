"""The counters of a plan's reports, view by view: what methods and tests begin with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from calmstream.estimators.arrays import Counts, Floats
from calmstream.estimators.mechanisms.base import Covariance, Mechanism
from calmstream.estimators.plan.pilots import CollectionPlan
from calmstream.estimators.tally import Tally
from calmstream.estimators.view import View


@dataclass(frozen=True, eq=False)
class CountedView:
    """The reports on one view. Its estimates are computed on first use, and need a report."""

    view: View
    mechanism: Mechanism
    n: int
    counts: Counts  # (width,)
    repeats: float = 1.0  # mean reports of a report's device; above 1 sampling has more variance

    @cached_property
    def table(self) -> Floats:
        """The estimated frequencies of the inputs: unbiased, may be negative."""
        return self.mechanism.estimate(self.counts, self.n)

    @cached_property
    def covariance(self) -> Covariance:
        """The covariance of `table`, at the likely frequencies."""
        return self.mechanism.covariance(self.n, likely(self.table))


def counted_views(plan: CollectionPlan, tallies: Sequence[Tally]) -> list[CountedView]:
    """Return all views of the groups with their counts, in the order of the plan."""
    return [
        CountedView(view, group.mechanism, int(n), counts)
        for group, tally in zip(plan.groups, tallies, strict=True)
        for view, n, counts in zip(group.views, tally.n, tally.counts, strict=True)
    ]


def likely(table: Floats) -> Floats:
    """Return frequencies for a variance: the positive part of an estimate, or the uniform table."""
    positive = np.maximum(table, 0.0)
    total = positive.sum()
    return positive / total if total > 0.0 else np.full(len(table), 1.0 / len(table))
