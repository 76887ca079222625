"""Prior scales of interactions: learnt from the counts of an earlier plan, or stated by the user.

The design of the next plan uses them; see noise-aware.md, section 3.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from math import isfinite
from typing import Any

import numpy as np

from calmstream.common.errors import PlanError
from calmstream.estimators.noise_aware.arrays import Floats
from calmstream.estimators.noise_aware.input.features import Features
from calmstream.estimators.noise_aware.input.statistics import Statistics, collect
from calmstream.estimators.noise_aware.priors import LEAST_SCALE, PriorScales, stated_scale
from calmstream.estimators.numerics.grids import LogNormal
from calmstream.estimators.plan.numbers import as_number
from calmstream.estimators.plan.pilots import CollectionPlan
from calmstream.estimators.tally import Tally

MAX_LIKELY = 16
"""Maximum number of equally likely scales of pairs; the design evaluates scenarios with each."""


def learn_scales(plan: CollectionPlan, tallies: Sequence[Tally]) -> list[Any]:
    """Learn the parameter ``prior_sizes`` from counts, one tally a group of the plan.

    Its first entry is the posterior median of the scale of order 1. The second is a list of three
    equally likely scales of pairs: the middles of the thirds of their posterior distribution. The
    others, of order 3 and 4, keep their default ratio to order 2. Cost: O(200 pairs).
    """
    features = Features(plan.domain.cardinalities)
    statistics = collect(plan, tallies, features)
    free = np.array([r - 1 for r in features.cardinalities], np.float64)
    starts = [own.start for own in features.slices]
    precision = statistics.mean_precision[starts]
    energy = np.add.reduceat(np.square(statistics.means), starts)
    # Noise of one direction of an attribute, inf without estimate.
    noise = np.where(precision > 0, 1.0 / np.where(precision > 0, precision, 1.0), np.inf)
    first, second, *rest = PriorScales().scales
    prior_one, prior_two = stated_scale(first), stated_scale(second)
    one = _posterior(energy, noise, free, prior_one)
    two = _posterior(*_pairs(features, statistics, energy, noise, free), prior_two)
    middle = _quantile(two, 1 / 2, prior_two)
    likely = [_rounded(_quantile(two, share, prior_two)) for share in (1 / 6, 1 / 2, 5 / 6)]
    higher = [_rounded(scale * middle / second) for scale in rest]
    return [_rounded(_quantile(one, 1 / 2, prior_one)), likely, *higher]


def _pairs(
    features: Features, statistics: Statistics, energy: Floats, noise: Floats, free: Floats
) -> tuple[Floats, Floats, Floats]:
    """Return energy, noise of one direction and number of directions of pairs with an estimate."""
    rows = []
    # Energy of the means without noise, clipped to what a mean can have.
    known = np.clip(energy - np.where(np.isfinite(noise), noise, 0.0) * free, 0.0, free) / free
    for i, j in combinations(range(len(free)), 2):
        a, b = features.slices[i], features.slices[j]
        precision = statistics.product_precision[a.start, b.start]
        if precision > 0:
            means = np.outer(statistics.means[a], statistics.means[b])
            found = np.square(statistics.products[a, b] - means).sum()
            spread = 1.0 / precision + known[i] * noise[j] + known[j] * noise[i]
            rows.append((found, spread + noise[i] * noise[j], free[i] * free[j]))
    out = np.array(rows, np.float64).reshape(-1, 3)
    return out[:, 0], out[:, 1], out[:, 2]


def _posterior(energy: Floats, noise: Floats, free: Floats, prior: LogNormal) -> Floats:
    """Return the posterior weights of the scales on the grid: of sum 1."""
    known = np.isfinite(noise)
    total = np.square(prior.points)[:, None] + noise[known]
    likely = 0.5 * (free[known] * np.log(total) + energy[known] / total).sum(axis=1)
    score = prior.on_grid - likely
    weight = np.exp(score - score.max())
    return np.asarray(weight / weight.sum(), np.float64)


def _quantile(weight: Floats, share: float, prior: LogNormal) -> float:
    return float(np.interp(share, np.cumsum(weight) - weight / 2, prior.points))


def _rounded(size: float) -> float:
    return float(f"{min(max(size, LEAST_SCALE), 1.0):.4g}")


def read_scales(value: Any) -> PriorScales:
    """Read the parameter ``prior_sizes``: one number for each order from 1 up to at most 4.

    The entry of order 2 may be a list of numbers that are equally likely.

    Raises:
        PlanError: something else, a negative number, one above 1, or only zeros.
    """
    name, most = "parameter prior_sizes", len(PriorScales().scales)
    if not isinstance(value, list) or not 1 <= len(value) <= most:
        raise PlanError(f"{name}: expected 1 to {most} numbers, of order 1, 2 and so on")
    orders = [list(v) if o == 2 and isinstance(v, list) else [v] for o, v in enumerate(value, 1)]
    for order, likely in enumerate(orders, 1):
        if not 1 <= len(likely) <= MAX_LIKELY:
            raise PlanError(f"{name}: of order 2: expected a number or 1 to {MAX_LIKELY} of them")
        likely[:] = [_size(f"{name}: of order {order}", size) for size in likely]
    if not any(map(any, orders)):
        raise PlanError(f"{name}: all are 0, so there would be nothing to learn")
    pairs = orders[1] if len(orders) > 1 else []
    mean = sum(pairs) / len(pairs) if pairs else 0.0
    return PriorScales.of([*orders[0], mean, *(likely[0] for likely in orders[2:])], pairs)


def _size(where: str, given: Any) -> float:
    size = as_number(given)
    if not isinstance(size, int | float) or isinstance(size, bool) or not isfinite(size):
        raise PlanError(f"{where}: expected a number, got {size!r}")
    if size < 0:
        raise PlanError(f"{where}: a standard deviation is not negative, got {size}")
    if size > 1:
        raise PlanError(f"{where}: no coefficient is above 1, got {size}")
    return size
