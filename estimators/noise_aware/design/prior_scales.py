"""How large interactions are: from an earlier collection, or as somebody states it."""

from __future__ import annotations

from itertools import combinations
from math import isfinite
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from estimators.errors import PlanError
from estimators.noise_aware.design.allocation import LEAST_SIZE, PRIOR_SIZES, Prior
from estimators.noise_aware.input.features import Features
from estimators.noise_aware.input.statistics import collect
from estimators.plan.numbers import as_number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from estimators.noise_aware.input.earlier import Asked
    from estimators.noise_aware.input.statistics import Statistics
    from estimators.tally import Tally

Floats = NDArray[np.float64]

MAX_ORDERS = len(PRIOR_SIZES)
MAX_LIKELY = 16
"""Most equally likely sizes of pairs."""

SPREAD = 2.0
"""Before any report a size lies within this factor of the stated one in two of three cases: the
middles of the three thirds of that law are the default sizes of pairs."""

_GRID = np.exp(np.linspace(np.log(LEAST_SIZE), 0.0, 200))
_MIDDLES = (1 / 6, 1 / 2, 5 / 6)


def learn_sizes(plan: Asked, tallies: Sequence[Tally]) -> list[Any]:
    """The parameter ``prior_sizes`` that somebody's counts suggest.

    Sizes of order 1 and 2 have a log-normal prior around those of `allocation` and the likelihood
    of the unbiased estimates: the energy of an attribute's, or pair's, coefficients over f free
    directions is ``(size^2 + noise) chi^2_f``; a pair's coefficient is its mean product minus the
    product of the means, with the noise of all three (METHODS §6). Being a posterior, a size is
    never negative, and what a few reports cannot tell stays as unsure as it was: of pairs, the
    middles of the posterior's three thirds are given, as equally likely. A pilot hardly speaks
    about orders above two: their sizes keep the proportion to order two that `allocation` has.

    Args:
        plan: its views are of kind ``cell``.
        tallies: one per group.

    Returns:
        A size, three sizes, a size, a size; between 0.001 and 1, to four digits. Cost: `collect`
        and O(200 pairs).
    """
    features = Features(plan.domain.cardinalities)
    statistics = collect(plan, tallies, features)
    free = np.array([r - 1 for r in features.cardinalities], np.float64)
    energy, noise = _singles(features, statistics)
    one = _posterior(energy, noise, free, PRIOR_SIZES[0])
    two = _posterior(*_pairs(features, statistics, energy, noise, free), PRIOR_SIZES[1])
    middle = _quantile(two, 1 / 2)
    higher = [size * middle / PRIOR_SIZES[1] for size in PRIOR_SIZES[2:]]
    likely = [_rounded(_quantile(two, share)) for share in _MIDDLES]
    return [_rounded(_quantile(one, 1 / 2)), likely, *map(_rounded, higher)]


def _singles(features: Features, statistics: Statistics) -> tuple[Floats, Floats]:
    """Energy of every attribute's estimates and noise of one of its directions, inf if unseen."""
    starts = [own.start for own in features.slices]
    precision = statistics.mean_precision[starts]
    energy = np.add.reduceat(np.square(statistics.means), starts)
    noise = np.where(precision > 0, 1.0 / np.where(precision > 0, precision, 1.0), np.inf)
    return energy, noise


def _pairs(
    features: Features, statistics: Statistics, energy: Floats, noise: Floats, free: Floats
) -> tuple[Floats, Floats, Floats]:
    """Energy, noise of one direction, and free directions of every pair that was asked about."""
    rows = []
    # What is certain of a mean: its noise may exceed what a mean can be.
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


def _posterior(energy: Floats, noise: Floats, free: Floats, expected: float) -> Floats:
    """Weights of the sizes on the grid; sum 1."""
    score = -0.5 * np.square(np.log(_GRID / expected) / np.log(SPREAD))
    seen = np.isfinite(noise)
    total = np.square(_GRID)[:, None] + noise[seen]
    score -= 0.5 * (free[seen] * np.log(total) + energy[seen] / total).sum(axis=1)
    weight = np.exp(score - score.max())
    return np.asarray(weight / weight.sum(), np.float64)


def _quantile(weight: Floats, share: float) -> float:
    return float(np.interp(share, np.cumsum(weight) - weight / 2, _GRID))


def _rounded(size: float) -> float:
    return float(f"{min(max(size, LEAST_SIZE), 1.0):.4g}")


def read_sizes(value: Any) -> Prior:
    """The parameter ``prior_sizes``: one number per order from 1 on, up to 4.

    In place of the number of order 2 a list says several that are equally likely.

    Raises:
        PlanError: anything else, negative or above 1 (no coefficient is larger), or all 0.
    """
    name = "parameter prior_sizes"
    if not isinstance(value, list) or not 1 <= len(value) <= MAX_ORDERS:
        raise PlanError(f"{name}: expected 1 to {MAX_ORDERS} numbers, of order 1, 2 and so on")
    value = [[*map(as_number, v)] if isinstance(v, list) else as_number(v) for v in value]
    several = len(value) > 1 and isinstance(value[1], list)
    pairs = value[1] if several else value[1:2]
    if several and not 1 <= len(pairs) <= MAX_LIKELY:
        raise PlanError(f"{name}: of order 2: expected a number or 1 to {MAX_LIKELY} of them")
    for order, size in [*enumerate(value, 1), *((2, size) for size in pairs)]:
        if not (several and size is pairs):
            _check(f"{name}: of order {order}", size)
    if not any([*value[:1], *pairs, *value[2:]]):
        raise PlanError(f"{name}: all are 0, so there would be nothing to learn")
    mean = sum(pairs) / len(pairs) if pairs else 0.0
    return Prior.of([value[0], mean, *value[2:]], pairs)


def _check(where: str, size: Any) -> None:
    number = isinstance(size, int | float) and not isinstance(size, bool)
    if not number or not isfinite(size):
        raise PlanError(f"{where}: expected a number, got {size!r}")
    if size < 0:
        raise PlanError(f"{where}: a standard deviation is not negative, got {size}")
    if size > 1:
        raise PlanError(f"{where}: no coefficient is above 1, got {size}")
