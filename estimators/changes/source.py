"""The counts of one side of a comparison: some windows of a plan, view by view."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from calmstream.estimators.domain import Domain
from calmstream.estimators.mechanisms.base import Mechanism
from calmstream.estimators.numerics import Counts
from calmstream.estimators.plan.pilots import CollectionPlan
from calmstream.estimators.tally import Tally
from calmstream.estimators.view import View


@dataclass(frozen=True, slots=True, eq=False)
class Observed:
    """The reports on one view."""

    view: View
    mechanism: Mechanism
    n: int
    counts: Counts  # (width,)
    repeats: float = 1.0  # mean reports of a report's device; above 1 sampling has more variance


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """One side of a comparison."""

    domain: Domain
    views: tuple[Observed, ...]


def source(
    plan: CollectionPlan, tallies: Sequence[Tally], repeats: Sequence[Sequence[float]] | None = None
) -> Source:
    """Return the source of some windows; ``repeats`` per group and view, None for once."""
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
