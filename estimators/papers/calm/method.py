"""CALM: consistent adaptive local marginals (Zhang et al., CCS 2018); see docs/methods/calm.md.

Every device reports on one view of l attributes, by GRR or OUE, in equal shares.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from calmstream.common.errors import PlanError
from calmstream.estimators.domain import Attributes, Domain
from calmstream.estimators.mechanisms.adaptive import adaptive
from calmstream.estimators.methods.base import Design, Request
from calmstream.estimators.methods.packing import Assigned, number_parameter, only_parameters, pack
from calmstream.estimators.papers.calm.overlapping import OverlappingTables, precise_tables
from calmstream.estimators.papers.calm.size import Size, algorithm_1
from calmstream.estimators.plan import Group, Plan
from calmstream.estimators.tally import Tally
from calmstream.estimators.view import View

THETA = 1e-3  # default threshold of Algorithm 1, the paper's
MAX_VIEW_CELLS = 1 << 20
MAX_TOTAL_CELLS = 1 << 21  # of all views; with more, making them consistent would take minutes


class Calm:
    """One table of a few attributes, by GRR or OUE, made consistent: CALM (Zhang et al., 2018).

    The parameter ``theta`` is the threshold of `algorithm_1`.
    """

    name: ClassVar[str] = "calm"
    baseline: ClassVar[bool] = False

    def design(self, request: Request) -> Design:
        """Choose one group per view; views share groups where the plan has too few."""
        only_parameters(self.name, request.parameters, "theta")
        theta = number_parameter(request.parameters, "theta", THETA, 1e-9, 1.0)
        size = algorithm_1(
            request.users, request.domain.cardinalities, float(request.epsilon), request.k, theta
        )
        _check_tables(size.views, request.domain)
        sizes = [request.domain.size(attributes) for attributes in size.views]
        oracles = {cells: adaptive(request.epsilon, cells) for cells in set(sizes)}
        views = zip(size.views, sizes, strict=True)
        assigned = [Assigned(View(attributes), oracles[cells]) for attributes, cells in views]
        groups = pack(assigned, request.max_groups, separate=True)
        return Design(groups, {"theta": theta}, _reason(size, groups, request, theta))

    def fit(self, plan: Plan, tallies: Sequence[Tally]) -> OverlappingTables:
        return OverlappingTables(plan.domain, precise_tables(plan, tallies))


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
            "be made consistent: merge labels or drop attributes"
        )


def _reason(size: Size, groups: Sequence[Group], request: Request, theta: float) -> tuple[str, ...]:
    d, k = len(request.domain), request.k
    covered = (
        f"they cover every set of {k} attributes"
        if size.complete
        else f"balanced over the attributes; tables of more than {size.l} are reconstructed"
    )
    oracles = sorted({g.mechanism.name.upper() for g in groups})
    lines = [
        f"m = {size.m} views of l = {size.l} of {d} attributes (Algorithm 1): {covered}",
        (
            f"k·NE = {size.noise:.3g} (noise), SE = {size.sampling:.3g} (sampling), "
            f"the aim is theta = {theta:g}"
        ),
        f"{' and '.join(oracles)} by table size; {request.users // size.m:,} reports a view",
    ]
    if max(size.noise, size.sampling) > theta:
        lines.append("to reach theta, more users or a larger epsilon would be needed")
    if len(groups) < size.m:
        lines.append(f"{size.m} views share {len(groups)} groups, so a report states its view")
    return tuple(lines)
