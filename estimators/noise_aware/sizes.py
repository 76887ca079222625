"""How large interactions are: from an earlier collection, or as somebody states it."""

from __future__ import annotations

from itertools import combinations
from math import isfinite, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from estimators.errors import PlanError
from estimators.noise_aware import shared
from estimators.noise_aware.allocation import LEAST_SIZE, PRIOR_SIZES
from estimators.noise_aware.features import Features
from estimators.noise_aware.statistics import collect

if TYPE_CHECKING:
    from collections.abc import Sequence

    from estimators.noise_aware.earlier import Asked
    from estimators.tally import Tally

MAX_ORDERS = len(PRIOR_SIZES)


def learn_sizes(plan: Asked, tallies: Sequence[Tally]) -> list[float]:
    """Standard deviation of a coefficient of order 1, 2, 3 and 4, from what was counted.

    The root of the posterior mean, under the model of `shared`, of the mean square coefficient: of
    a feature's mean, and of a pair's product minus that of its means (low-rank and residual parts
    together). So they are shrunk as far as noise demands, to the model's own prior where there is
    nothing but noise, and are never negative. A pilot hardly speaks about orders above two: their
    sizes keep the proportion to order two that they have in `allocation`.

    Args:
        plan: its views are of kind ``cell``.
        tallies: one per group, with at least one report.

    Returns:
        Four sizes between 0.001 and 1, to four digits. Cost: `shared.fit`.
    """
    features = Features(plan.domain.cardinalities)
    posterior = shared.fit(features, collect(plan, tallies, features))
    free = np.array([r - 1 for r in features.cardinalities], np.float64)
    energy = np.square(posterior.means) + posterior.mean_variance
    one = np.mean([energy[own].sum() / f for own, f in zip(features.slices, free, strict=True)])
    d = len(free)
    # One of r features is redundant: what noise puts there is no interaction.
    centre = np.eye(features.size)
    for own, r in zip(features.slices, features.cardinalities, strict=True):
        if r > 2:
            centre[own, own] -= 1.0 / r
    means, products = posterior.drawn_means, posterior.drawn_products
    pure = centre @ (products - means[:, :, None] * means[:, None, :]) @ centre
    square = np.square(pure).mean(axis=0)
    blocks = [
        square[features.slices[i], features.slices[j]].sum() / (free[i] * free[j])
        for i, j in combinations(range(d), 2)
    ]
    two = sqrt(np.mean(blocks)) if blocks else PRIOR_SIZES[1]
    ratio = two / PRIOR_SIZES[1]
    sizes = [sqrt(one), two, *(size * ratio for size in PRIOR_SIZES[2:])]
    return [float(f"{min(max(size, LEAST_SIZE), 1.0):.4g}") for size in sizes]


def read_sizes(value: Any) -> tuple[float, ...]:
    """The parameter ``prior_sizes``: one number per order from 1 on, up to 4.

    Raises:
        PlanError: anything else, negative or above 1 (no coefficient is larger), or all 0.
    """
    name = "parameter prior_sizes"
    if not isinstance(value, list) or not 1 <= len(value) <= MAX_ORDERS:
        raise PlanError(f"{name}: expected 1 to {MAX_ORDERS} numbers, of order 1, 2 and so on")
    for order, size in enumerate(value, 1):
        number = isinstance(size, int | float) and not isinstance(size, bool)
        if not number or not isfinite(size):
            raise PlanError(f"{name}: of order {order}: expected a number, got {size!r}")
        if size < 0:
            raise PlanError(
                f"{name}: of order {order}: a standard deviation is not negative, got {size}"
            )
        if size > 1:
            raise PlanError(f"{name}: of order {order}: no coefficient is above 1, got {size}")
    if not any(value):
        raise PlanError(f"{name}: all are 0, so there would be nothing to learn")
    return tuple(float(size) for size in value)
