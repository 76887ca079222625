"""CALM: consistent adaptive local marginals (Zhang et al., CCS 2018).

Every user reports one marginal of l attributes, by GRR or OUE; all views have equal shares. The
formulas are in docs/methods/calm.md.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import combinations, islice
from math import comb
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from estimators.errors import PlanError
from estimators.mechanisms import adaptive, spec
from estimators.mechanisms.base import Covariance
from estimators.methods.base import Answers, Design
from estimators.methods.shared.calm_size import Size, algorithm_1
from estimators.methods.shared.options import number_parameter, only_parameters
from estimators.methods.shared.overlapping import OverlappingTables, observe
from estimators.methods.shared.pooled_variance import Pooled
from estimators.plan import Group
from estimators.view import View

if TYPE_CHECKING:
    from collections.abc import Sequence

    from estimators.domain import Attributes, Domain
    from estimators.plan import Plan
    from estimators.plan.request import Request
    from estimators.tally import Tally

THETA = 1e-3
"""Error that Algorithm 1 tries to stay under."""

MAX_VIEW_CELLS = 1 << 20
"""Largest table that a device reports on."""

MAX_TOTAL_CELLS = 1 << 21
"""Most cells of all views together; making more agree would take the publisher minutes."""

_SAMPLED = 48
"""Most marginals of one size over which the expected error is averaged."""


class Calm:
    """Registry name ``calm``; parameter ``theta`` (default 0.001): see `algorithm_1`."""

    name: ClassVar[str] = "calm"
    baseline: ClassVar[bool] = False
    answers: ClassVar[Answers] = "interactions"

    def design(self, request: Request) -> Design:
        """Algorithm 1, then one group per view, or packed groups when there are too many views."""
        only_parameters(self.name, request.parameters, "theta")
        theta = number_parameter(request.parameters, "theta", THETA, 1e-9, 1.0)
        size = algorithm_1(
            request.users, request.domain.cardinalities, float(request.epsilon), request.k, theta
        )
        _check_tables(size.views, request.domain)
        groups = pack(size.views, request.domain, request.epsilon, request.max_groups)
        return Design(
            groups,
            {"theta": theta},
            _reason(size, groups, request, theta),
            _expected(size.views, request),
        )

    def fit(self, plan: Plan, tallies: Sequence[Tally]) -> OverlappingTables:
        """Estimate every view, reconcile them, answer from the result."""
        return OverlappingTables(plan.domain, observe(plan, tallies))


def _check_tables(views: Sequence[Attributes], domain: Domain) -> None:
    largest = max(views, key=domain.size)
    if domain.size(largest) > MAX_VIEW_CELLS:
        names = ", ".join(domain.names[i] for i in largest)
        raise PlanError(
            f"the table over {names} has {domain.size(largest):,} cells; a device reports on at "
            f"most {MAX_VIEW_CELLS:,}: merge labels or drop attributes"
        )
    total = sum(domain.size(view) for view in views)
    if total > MAX_TOTAL_CELLS:
        raise PlanError(
            f"the {len(views)} views have {total:,} cells in all; at most {MAX_TOTAL_CELLS:,} can "
            "be made to agree: merge labels or drop attributes"
        )


def pack(
    views: Sequence[Attributes], domain: Domain, epsilon: str, max_groups: int
) -> tuple[Group, ...]:
    """Equal shares for all views: a group each while they fit, else as even groups as possible.

    Views share a group only if they have the same mechanism, that is, as many cells.

    Raises:
        PlanError: there are more different table sizes than groups allowed.
    """
    kinds: dict[int, list[View]] = defaultdict(list)
    for attributes in views:
        kinds[domain.size(attributes)].append(View(attributes))
    if len(kinds) > max_groups:
        raise PlanError(
            f"{len(kinds)} different table sizes need as many groups; at most {max_groups} topics "
            "are allowed: make cardinalities equal or drop attributes"
        )
    parts = dict.fromkeys(kinds, 1)
    for _ in range(min(max_groups, len(views)) - len(kinds)):
        fullest = max(kinds, key=lambda cells: len(kinds[cells]) / parts[cells])
        parts[fullest] += 1
    groups = []
    for cells, own in kinds.items():
        mechanism = spec(adaptive(epsilon, cells))
        for part in np.array_split(np.arange(len(own)), parts[cells]):
            members = tuple(own[i] for i in part)
            groups.append(Group(mechanism, members, (1,) * len(members)))
    return tuple(groups)


def _reason(size: Size, groups: Sequence[Group], request: Request, theta: float) -> tuple[str, ...]:
    d, k = len(request.domain), request.k
    covered = (
        f"they cover every set of {k}"
        if size.complete
        else f"balanced over the attributes; larger sets than {size.l} are reconstructed"
    )
    oracles = sorted({str(g.mechanism["name"]).upper() for g in groups})
    lines = [
        f"m = {size.m} views of l = {size.l} of {d} attributes (Algorithm 1): {covered}",
        (
            f"k·NE = {size.noise:.3g} (noise), SE = {size.sampling:.3g} (sampling), "
            f"aimed at theta = {theta:g}"
        ),
        f"{' and '.join(oracles)} by table size; {request.users // size.m:,} reports a view",
    ]
    if max(size.noise, size.sampling) > theta:
        lines.append("more users or a larger epsilon would be needed to reach theta")
    if len(groups) < size.m:
        lines.append(f"packed into {len(groups)} groups, so that a report names its view")
    return tuple(lines)


def _expected(views: Sequence[Attributes], request: Request) -> dict[int, float]:
    """Mean over marginals of each size up to k of the summed variance, before non-negativity."""
    domain, n = request.domain, max(request.users // len(views), 1)
    by_cells: dict[int, Covariance] = {}
    for attributes in views:
        cells = domain.size(attributes)
        if cells not in by_cells:
            even = np.full(cells, 1.0 / cells)
            by_cells[cells] = adaptive(request.epsilon, cells).covariance(n, even)
    covariances = [by_cells[domain.size(attributes)] for attributes in views]
    precision = np.array([1.0 / c.interaction for c in covariances])
    pooled = Pooled(views, domain.cardinalities, covariances, precision)
    expected = {}
    for size in range(1, min(request.k, 3) + 1):
        step = -(-comb(len(domain), size) // _SAMPLED)
        sampled = islice(combinations(range(len(domain)), size), 0, None, step)
        errors = [float(pooled.variance(a).sum()) for a in sampled if domain.size(a) <= 1 << 16]
        if errors:
            expected[size] = float(np.mean(errors))
    return expected
