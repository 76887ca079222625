"""The counts of one side of a comparison: some windows of a plan, view by view."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain

from calmstream.estimators.domain import Domain
from calmstream.estimators.plan.counted import CountedView, counted_views
from calmstream.estimators.plan.pilots import CollectionPlan
from calmstream.estimators.tally import Tally


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """One side of a comparison."""

    domain: Domain
    views: tuple[CountedView, ...]


def source(
    plan: CollectionPlan, tallies: Sequence[Tally], repeats: Sequence[Sequence[float]] | None = None
) -> Source:
    """Return the source of some windows; ``repeats`` per group and view, None for once."""
    views = counted_views(plan, tallies)
    if repeats is not None:
        often = chain.from_iterable(repeats)
        views = [replace(v, repeats=float(r)) for v, r in zip(views, often, strict=True)]
    return Source(plan.domain, tuple(views))
