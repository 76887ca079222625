"""Estimation from overlapping views: consistent tables, and any marginal from them.

A view *covers* a set of attributes if it has all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import combinations
from typing import ClassVar

import numpy as np

from calmstream.common.errors import InvalidInput
from calmstream.estimators.arrays import Floats
from calmstream.estimators.domain import Attributes, Domain
from calmstream.estimators.marginal import (
    CLIPPED_STDERRS,
    MAX_COVARIANCE_CELLS,
    MAX_QUERY_CELLS,
    Marginal,
    flagged,
    uniform,
)
from calmstream.estimators.numerics import consistency
from calmstream.estimators.numerics.maximum_entropy import maximum_entropy
from calmstream.estimators.papers.calm import unmodelled
from calmstream.estimators.papers.calm.pooled_variance import Pooled
from calmstream.estimators.plan import Plan
from calmstream.estimators.plan.counted import CountedView, counted_views
from calmstream.estimators.tally import Tally

NEGLIGIBLE = 1e-3
"""A view whose precision is below this share of the largest is left out: it adds nearly nothing,
but its noisy table would have to be made consistent with all others."""

MOST_PAIRS = 4096


def precise_tables(plan: Plan, tallies: Sequence[Tally]) -> list[CountedView]:
    """Return the views of kind ``cell`` with enough precision."""
    found = [v for v in counted_views(plan, tallies) if v.n > 0 and v.view.kind == "cell"]
    best = max(map(precision, found), default=0.0)
    return [v for v in found if precision(v) >= NEGLIGIBLE * best]


def precision(own: CountedView) -> float:
    """Return the inverse of a cell's variance if the table is uniform, less that by its total."""
    cells = own.mechanism.cells
    whole = own.mechanism.covariance(own.n, np.full(cells, 1.0 / cells))
    return 1.0 / float(whole.diagonal.mean())


class OverlappingTables:
    """A fitted model. Arrays hold the tables of all views, one after another.

    ``raw`` are the estimates, unbiased; ``linear`` the consistent ones (`consistency.harmonise`),
    unbiased; ``tables`` the non-negative ones too (`consistency.reconcile`).
    """

    everyone: ClassVar[bool] = False
    processing = (
        "consistency between overlapping views",
        "non-negativity, total 1",
        "average over covering views",
        "maximum entropy where no view covers",
    )

    def __init__(self, domain: Domain, counted: Sequence[CountedView]) -> None:
        self._domain = domain
        self._counted = counted
        self._precision = np.array([precision(own) for own in counted])
        views = tuple(own.view.attributes for own in counted)
        self.shared = consistency.structure(views, domain.cardinalities)
        self.raw = np.concatenate([np.zeros(0), *(own.table for own in counted)])
        self.linear, _ = consistency.harmonise(self.shared, self.raw, self._precision)
        self.tables = consistency.reconcile(self.shared, self.raw, self._precision)
        self._members = [frozenset(view) for view in views]
        self._cache: dict[Attributes, tuple[Floats, Floats]] = {}

    @cached_property
    def _pooled(self) -> Pooled:
        covariances = [
            own.mechanism.covariance(own.n, self.shared.table(self.tables, number))
            for number, own in enumerate(self._counted)
        ]
        return Pooled(self.shared.views, self._domain.cardinalities, covariances, self._precision)

    def marginal(self, attributes: Attributes) -> Marginal:
        """Return the average of covering views' projections, weighted by inverse variance.

        Without a covering view it is the table of maximum entropy with the projections to the
        largest sets of these attributes that views cover; its errors contain interactions that no
        view holds, at the size of those that views hold. ``reports`` counts covering views, or all
        that share an attribute.
        """
        cells = self._domain.size(attributes)
        if cells > MAX_QUERY_CELLS:
            raise InvalidInput(f"a table of {cells:,} cells; at most {MAX_QUERY_CELLS:,} are made")
        wanted = frozenset(attributes)
        covering = [v for v, members in enumerate(self._members) if wanted <= members]
        meeting = covering or [v for v, members in enumerate(self._members) if wanted & members]
        if not meeting:
            return uniform(attributes, cells)
        variance = self._pooled.variance(attributes)
        if covering:
            flags = ["covered"]
            table, moved = self._covered(attributes)
        else:
            flags = ["maxent"]
            table, moved = self._reconstruct(attributes)
            variance += self._unmodelled(attributes)
            if not wanted <= frozenset().union(*(self._members[v] for v in meeting)):
                flags.append("uniform")
        stderr = np.sqrt(variance)
        reports = sum(self._counted[v].n for v in meeting)
        clipped = bool((moved > CLIPPED_STDERRS * stderr).any())
        return flagged(attributes, table, stderr, reports, flags, clipped=clipped)

    @cached_property
    def _pair_size(self) -> float:
        """The mean square standardised interaction of pairs (`unmodelled.pair_size`)."""
        views: dict[Attributes, list[int]] = {}
        for number, view in enumerate(self.shared.views):
            for first, second in combinations(view, 2):
                views.setdefault((first, second), []).append(number)
        found = []
        for pair in sorted(views)[:: max(-(-len(views) // MOST_PAIRS), 1)]:
            covering = views[pair]
            # The variance of a direction is that of a view's cell times the cells that are added.
            known = sum(self._precision[v] / self.shared.table(self.raw, v).size for v in covering)
            shape = self._domain.shape(pair)
            table = self._project(self.linear, covering, pair)
            found.append((table.reshape(shape), 1.0 / (table.size * known)))
        return unmodelled.pair_size(found)

    def _unmodelled(self, attributes: Attributes) -> Floats:
        margins = [self.marginal((i,)).table for i in attributes]
        missing = unmodelled.missing_shares(attributes, self._members)
        return unmodelled.variance(margins, missing, self._pair_size)

    def unclipped(self, attributes: Attributes) -> Floats:
        """Return the consistent estimate before non-negativity: the centre of exact intervals."""
        return self._project(self.linear, self._covering(attributes), attributes)

    def covariance(self, attributes: Attributes) -> Floats:
        if (cells := self._domain.size(attributes)) > MAX_COVARIANCE_CELLS:
            raise InvalidInput(f"a covariance of {cells:,} cells; at most {MAX_COVARIANCE_CELLS:,}")
        self._covering(attributes)
        return self._pooled.covariance(attributes)

    def _covering(self, attributes: Attributes) -> list[int]:
        """Return the numbers of the views that cover the attributes, at least one."""
        wanted = frozenset(attributes)
        views = [v for v, members in enumerate(self._members) if wanted <= members]
        if not views:
            names = ", ".join(self._domain.names[i] for i in attributes)
            raise InvalidInput(f"no view holds all of {names}: there is no unbiased table of them")
        return views

    def _covered(self, attributes: Attributes) -> tuple[Floats, Floats]:
        """Return the table over covered attributes, and how far non-negativity moved each cell."""
        if attributes not in self._cache:
            table = self._project(self.tables, self._covering(attributes), attributes)
            self._cache[attributes] = table, np.abs(table - self.unclipped(attributes))
        return self._cache[attributes]

    def _project(self, flat: Floats, views: Sequence[int], attributes: Attributes) -> Floats:
        """Return the average of the views' projections, weighted by inverse variance."""
        cells = self._domain.size(attributes)
        total, mass = np.zeros(cells), 0.0
        for number in views:
            own = self.shared.table(flat, number)
            into = consistency.projection(
                self.shared.views[number], attributes, self._domain.cardinalities
            )
            # The variance grows with the number of cells that are summed.
            weight = self._precision[number] * cells / own.size
            total += weight * np.bincount(into, own, cells)
            mass += weight
        return total / mass

    def _reconstruct(self, attributes: Attributes) -> tuple[Floats, Floats]:
        """Return the table of maximum entropy, and a bound of its change by non-negativity."""
        wanted = frozenset(attributes)
        common = {members & wanted for members in self._members} - {frozenset()}
        largest = sorted(tuple(sorted(s)) for s in common if not any(s < other for other in common))
        shape = self._domain.shape(attributes)
        projections = []
        moved = np.zeros(shape)
        for covered in largest:
            table, shift = self._covered(covered)
            axes = tuple(attributes.index(i) for i in covered)
            projections.append((axes, table))
            # A change of a projection spreads over the cells that are summed into it.
            laid_out = shift.reshape([r if i in axes else 1 for i, r in enumerate(shape)])
            moved = np.maximum(moved, laid_out * (table.size / moved.size))
        return maximum_entropy(shape, projections), moved.ravel()
