"""How large a change must be to be found: the power of the test of a table."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, lgamma, log, sqrt

import numpy as np

from calmstream.estimators.arrays import Floats
from calmstream.estimators.changes.basis import contrasts
from calmstream.estimators.changes.evidence import covariance, evidence, inverse, part_of
from calmstream.estimators.changes.fit import Fit, common, fit
from calmstream.estimators.domain import Attributes, Domain
from calmstream.estimators.mechanisms.covariance import sum_out
from calmstream.estimators.numerics.distribution import critical_value, least, tail
from calmstream.estimators.plan.counted import CountedView
from calmstream.estimators.plan.pilots import CollectionPlan

POWER = 0.8
_TERMS = 100_000


def noncentral_tail(x: float, freedom: int, noncentrality: float) -> float:
    """Return P(noncentral chi-square > x): a mixture of chi-squares with Poisson weights."""
    half = noncentrality / 2.0
    if half <= 0.0:
        return tail(x, freedom)
    centre = int(half)
    spread = 12 * int(sqrt(half) + 3)
    total = 0.0
    for j in range(max(0, centre - spread), min(centre + spread, _TERMS)):
        weight = exp(j * log(half) - half - lgamma(j + 1))
        total += weight * tail(x, freedom + 2 * j)
    return min(total, 1.0)


def noncentrality_for(power: float, freedom: int, alpha: float) -> float:
    """Return the noncentrality at which a test of level alpha has this power."""
    critical = critical_value(alpha, freedom)
    return least(lambda shift: noncentral_tail(critical, freedom, shift) >= power, 10.0, 1e-6)


def planned_views(plan: CollectionPlan, users: int) -> tuple[CountedView, ...]:
    """Return the views of a plan with the reports that one window is expected to have."""
    total = sum(group.share for group in plan.groups)
    return tuple(
        CountedView(
            view, group.mechanism, max(round(users * share / total), 1), np.zeros(0, np.int64)
        )
        for group in plan.groups
        for view, share in zip(group.views, group.shares, strict=True)
    )


def expected_fit(
    views: Sequence[CountedView], domain: Domain, target: Attributes, table: Floats
) -> Fit:
    """Return the covariance of the coefficients from numbers of reports, at ``table``: (cells,)."""
    shape = domain.shape(target)
    theta = contrasts(shape).T @ table
    pieces = []
    for own in views:
        part = part_of(own, target, domain)
        if part is None:
            continue
        size = part.cells - 1
        if own.view.kind == "cell":
            axes = tuple(target.index(own.view.attributes[j]) for j in part.axes)
            held = sum_out(table, shape, axes)
        else:
            bare = evidence(own, part, target, domain, np.zeros(size), np.eye(size))
            held = (1.0 + part.basis @ bare.expected(theta)) / part.cells
        precision = inverse(covariance(own, part, held))
        pieces.append(evidence(own, part, target, domain, np.zeros(size), precision))
    return fit(pieces, len(theta))


def noncentrality(first: Fit, second: Fit, delta: Floats) -> tuple[float, int]:
    shared = common(first.determined, second.determined)
    if not shared.shape[1]:
        return 0.0, 0
    spread = shared.T @ (first.covariance + second.covariance) @ shared
    moved = shared.T @ delta
    return float(moved @ inverse(spread) @ moved), shared.shape[1]


def smallest_shift(
    views: Sequence[CountedView], domain: Domain, target: Attributes, alpha: float
) -> float | None:
    """Return the smallest shift of one cell that is found with probability `POWER`.

    Both sides have these views. The other cells of a uniform table give way in proportion. None if
    no view speaks about the table.
    """
    design = contrasts(domain.shape(target))
    cells = len(design)
    side = expected_fit(views, domain, target, np.full(cells, 1.0 / cells))
    direction = np.full(cells, -1.0 / (cells - 1))
    direction[0] = 1.0
    strength, freedom = noncentrality(side, side, design.T @ direction)
    if strength <= 0.0:
        return None
    return sqrt(noncentrality_for(POWER, freedom, alpha) / strength)
