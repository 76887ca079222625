"""CALM: consistent adaptive local marginals (Zhang et al., CCS 2018).

Every user reports one marginal of l attributes, by GRR or OUE; all views have equal shares. The
formulas are in docs/methods/calm.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from estimators.errors import PlanError
from estimators.mechanisms import adaptive
from estimators.mechanisms.base import Covariance
from estimators.methods.base import Answers, Design
from estimators.methods.shared.calm_size import Size, algorithm_1
from estimators.methods.shared.options import number_parameter, only_parameters
from estimators.methods.shared.overlapping import OverlappingTables, observe
from estimators.methods.shared.packing import Assigned, pack
from estimators.methods.shared.pooled_variance import Pooled
from estimators.numerics.expected_error import mean_error
from estimators.view import View

if TYPE_CHECKING:
    from collections.abc import Sequence

    from estimators.domain import Attributes, Domain
    from estimators.plan import Group, Plan
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

_MAX_EXPECTED_SIZE = 3
"""Largest marginals whose expected error is stated: each costs a variance over all views."""

_MAX_EXPECTED_CELLS = 1 << 16
"""Largest tables among them."""


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
        groups = pack(_assign(size.views, request), request.max_groups, separate=True)
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


def _assign(views: Sequence[Attributes], request: Request) -> list[Assigned]:
    """Give every view CALM's mechanism for its number of cells, and the same share."""
    sizes = [request.domain.size(attributes) for attributes in views]
    oracles = {cells: adaptive(request.epsilon, cells) for cells in set(sizes)}
    return [Assigned(View(a), oracles[cells]) for a, cells in zip(views, sizes, strict=True)]


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
    """Return the mean summed variance by size of marginal, before non-negativity."""
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
    return mean_error(
        domain,
        request.k,
        lambda attributes: float(pooled.variance(attributes).sum()),
        sampled=_SAMPLED,
        max_size=_MAX_EXPECTED_SIZE,
        max_cells=_MAX_EXPECTED_CELLS,
    )
