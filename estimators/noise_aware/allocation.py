"""Who reports on what: shares that minimise the expected posterior error of the workload.

A coefficient of an interaction of order o has prior variance s_o^2 and, with n reports on a view of
L cells that holds it, noise variance V = L v / n (`statistics`); its expected posterior error is
``s^2 V / (s^2 + V)``. The sum over the interactions of a k-way table, each weighted by the number
of workload tables it is in over their cells, is convex in the shares. Of pair interactions one half
of the prior energy is taken as shared (a few causes move all pairs), so that all d pairs of an
attribute speak about it: its noise is that of d / 2 times as many reports. That is what makes pairs
worth asking about when single ones drown in noise.

Candidates: all single attributes with all pairs, in any proportion; in an all-binary domain also
all triples, or sets of four, with single attributes. A floor of 5 % stays on pairs, so that the
sizes of interactions can be learnt whatever the prior says.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from math import comb, exp
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray

from estimators.covering import balanced
from estimators.mechanisms import best_oracle
from estimators.noise_aware.joint import SMALL
from estimators.noise_aware.statistics import cell_variance

if TYPE_CHECKING:
    from collections.abc import Sequence

    from estimators.domain import Attributes
    from estimators.mechanisms.base import Mechanism

Floats = NDArray[np.float64]

PRIOR_SIZES = (0.6, 0.1, 0.05, 0.03)
"""Standard deviation of a coefficient of order 1, 2, 3, 4; higher orders are taken as 0."""

PAIR_SIZES = (0.05, 0.1, 0.2)
"""That of order 2 is not known beforehand: these are taken as equally likely."""

LEAST_SIZE = 1e-3
"""Smaller sizes are taken as this one: what is said to be nothing keeps the floor's reports."""

FLOOR = 0.05
MAX_SETS = 1024
"""Most sets of three or four attributes."""

_ROUNDS = 60
_SINGLE_SHARES = (0.0, 0.1, 0.2, 0.4, 0.6)


@dataclass(frozen=True, slots=True, eq=False)
class Allocation:
    """Views with positive shares that sum to 1.

    Attributes:
        views: attribute sets.
        shares: shape (views,).
        size: attributes of the larger views.
        expected: expected posterior SSE by size of marginal, 1 to 3 and k, under the prior.
    """

    views: tuple[Attributes, ...]
    shares: Floats
    size: int
    expected: dict[int, float]


@dataclass(frozen=True, slots=True)
class Prior:
    """How large interactions are thought to be.

    Attributes:
        sizes: standard deviation of a coefficient of order 1, 2 and so on; beyond them 0.
        pairs: sizes of order 2, equally likely.
    """

    sizes: tuple[float, ...] = PRIOR_SIZES
    pairs: tuple[float, ...] = PAIR_SIZES

    @classmethod
    def of(cls, sizes: Sequence[float], pairs: Sequence[float] = ()) -> Prior:
        """These sizes, one for each order, and those of order 2 where several are likely."""
        kept = tuple(max(size, LEAST_SIZE) for size in (*sizes, 0.0)[: max(2, len(sizes))])
        return cls(kept, tuple(max(size, LEAST_SIZE) for size in pairs) or kept[1:2])


def allocate(
    cardinalities: Sequence[int], users: int, epsilon: str, k: int, prior: Prior | None = None
) -> Allocation:
    """The best candidate.

    Args:
        cardinalities: of all attributes.
        users: reports expected.
        epsilon: decimal string.
        k: size of the marginals that matter.
        prior: sizes of interactions; by default those that stand in this module.
    """
    problem = _Problem(tuple(cardinalities), users, epsilon, prior or Prior())
    d = len(cardinalities)
    if d == 1:
        return Allocation(((0,),), np.ones(1), 1, problem.expected(problem.single, np.zeros(0), 1))
    best, least = problem.pairs(k)
    if all(r == 2 for r in cardinalities):
        for size in (3, 4):
            if size <= d:
                found, error = problem.sets(size, k, least)
                if found is not None:
                    best, least = found, error
    return best


@lru_cache(maxsize=4096)
def oracle(epsilon: str, cells: int) -> tuple[Mechanism, float]:
    """The best oracle over ``cells`` and the information about one coefficient in one report."""
    mechanism = cast("Mechanism", best_oracle(epsilon, cells))
    return mechanism, 1.0 / (cells * cell_variance(mechanism))


class _Problem:
    def __init__(
        self, cardinalities: tuple[int, ...], users: int, epsilon: str, prior: Prior
    ) -> None:
        self.prior = prior
        self.r = np.array(cardinalities, np.float64)
        self.d, self.users, self.epsilon = len(cardinalities), users, epsilon
        self.mean_cells = exp(float(np.log(self.r).mean()))
        self.upper = np.triu_indices(self.d, 1)
        self.single = users * np.array([self._information(r) for r in self.r])
        pair_cells = np.outer(self.r, self.r)[self.upper]
        self.double = users * np.array([self._information(c) for c in pair_cells])

    def _information(self, cells: float) -> float:
        return oracle(self.epsilon, round(cells))[1]

    def error(self, one: Floats, two: Floats, k: int) -> tuple[float, Floats, Floats]:
        """Expected error of a k-way table and its derivatives by the precisions.

        Args:
            one: shape (d,): precision of first-order coefficients.
            two: shape (pairs,): of second-order ones.
            k: size of the table.
        """
        d, (i, j) = self.d, self.upper
        weight1 = k / d * (self.r - 1) / self.r * self.mean_cells ** (1 - k)
        total, slope1 = _posterior(one, self.prior.sizes[0] ** 2, weight1)
        if k < 2:
            return total, slope1, np.zeros(two.size)
        free = (self.r[i] - 1) * (self.r[j] - 1) / (self.r[i] * self.r[j])
        weight2 = comb(k, 2) / comb(d, 2) * free * self.mean_cells ** (2 - k)
        pooled = max(d / 2, 1.0)
        slope2 = np.zeros(two.size)
        for size in self.prior.pairs:
            half, weight = size**2 / 2, weight2 / len(self.prior.pairs)
            own, slope_own = _posterior(two, half, weight)
            shared, slope_shared = _posterior(two * pooled, half, weight)
            total += own + shared
            slope2 += slope_own + pooled * slope_shared
        return total, slope1, slope2

    def expected(self, one: Floats, two: Floats, k: int) -> dict[int, float]:
        """Expected error of 1- to 3-way and k-way tables when pairs are the largest views."""
        sizes = sorted({*range(1, min(self.d, 3) + 1), k})
        return {t: self.error(one, two, t)[0] + self._higher(t, ()) for t in sizes}

    def _higher(self, k: int, precision: Sequence[float]) -> float:
        """Expected error of orders three and above; what nobody reports on keeps its prior."""
        total = 0.0
        for order in range(3, min(k, len(self.prior.sizes)) + 1):
            s2 = self.prior.sizes[order - 1] ** 2
            known = precision[order - 3] if order - 3 < len(precision) else 0.0
            free = (1.0 - 1.0 / self.mean_cells) ** order
            total += comb(k, order) * free * self.mean_cells ** (order - k) * s2 / (1 + s2 * known)
        return total

    def pairs(self, k: int) -> tuple[Allocation, float]:
        """All single attributes and all pairs, by multiplicative steps to the optimum."""
        i, j = self.upper
        one, two = np.full(self.d, 0.5 / self.d), np.full(i.size, 0.5 / i.size)
        for _ in range(_ROUNDS):
            a, b = self._precision(one, two)
            _, slope1, slope2 = self.error(a, b, k)
            from_pairs = slope1[i] + slope1[j] + slope2
            one = one * np.sqrt(slope1 * self.single)
            two = two * np.sqrt(from_pairs * self.double)
            total = one.sum() + two.sum()
            one, two = one / total, two / total
        one, two = one * (1 - FLOOR), two * (1 - FLOOR) + FLOOR / i.size
        a, b = self._precision(one, two)
        error = self.error(a, b, k)[0] + self._higher(k, ())
        views = [(int(x),) for x in range(self.d)] + [
            (int(x), int(y)) for x, y in zip(i, j, strict=True)
        ]
        shares = np.concatenate([one, two])
        kept = shares > 1e-4 / shares.size
        found = Allocation(
            tuple(v for v, keep in zip(views, kept, strict=True) if keep),
            shares[kept] / shares[kept].sum(),
            2,
            self.expected(a, b, k),
        )
        return found, error

    def _precision(self, one: Floats, two: Floats) -> tuple[Floats, Floats]:
        i, j = self.upper
        second = two * self.double
        first = one * self.single
        first = first + np.bincount(i, second, self.d) + np.bincount(j, second, self.d)
        return first, second

    def sets(self, size: int, k: int, bound: float) -> tuple[Allocation | None, float]:
        """Sets of binary attributes, all alike, with the best of a few shares of single ones.

        The sets are only laid where their error is below the bound: of many attributes that takes
        seconds.
        """
        d = self.d
        information = self.users * self._information(2.0**size)

        def precision(single: float, order: int) -> float:
            held = comb(size, order) / comb(d, order)
            return (1 - single) * information * held

        def evaluate(single: float, k: int) -> float:
            one = np.full(d, precision(single, 1) + single / d * self.single[0])
            two = np.full(self.upper[0].size, precision(single, 2))
            read = size if d <= SMALL else min(size, 3)  # what is recovered
            higher = [precision(single, order) for order in range(3, read + 1)]
            return self.error(one, two, k)[0] + self._higher(k, higher)

        single = min(_SINGLE_SHARES, key=lambda s: evaluate(s, k))
        if evaluate(single, k) >= bound:
            return None, bound
        count = comb(d, size)
        sets = (
            tuple(combinations(range(d), size))
            if count <= MAX_SETS
            else balanced(d, size, MAX_SETS)
        )
        views: tuple[Attributes, ...] = sets
        shares = np.full(len(sets), (1 - single) / len(sets))
        if single > 0:
            views = tuple((i,) for i in range(d)) + views
            shares = np.concatenate([np.full(d, single / d), shares])
        expected = {t: evaluate(single, t) for t in sorted({1, 2, 3, k})}
        return Allocation(views, shares, size, expected), evaluate(single, k)


def _posterior(precision: Floats, prior: float, weight: Floats) -> tuple[float, Floats]:
    """``sum weight prior / (1 + prior precision)`` and minus its derivative by the precision."""
    shrink = prior / (1.0 + prior * precision)
    return float((weight * shrink).sum()), weight * np.square(shrink)


def integer_shares(shares: Floats) -> tuple[int, ...]:
    """Positive integers in these proportions, to about six digits."""
    scaled = np.maximum(np.rint(shares / shares.max() * (1 << 20)), 1)
    return tuple(int(s) for s in scaled)


def describe(allocation: Allocation) -> str:
    """The shares, for people."""
    by_size: dict[int, float] = {}
    for view, share in zip(allocation.views, allocation.shares, strict=True):
        by_size[len(view)] = by_size.get(len(view), 0.0) + float(share)
    parts = [
        f"{share:.0%} on {sum(len(v) == size for v in allocation.views)} views of {size}"
        for size, share in sorted(by_size.items())
    ]
    return ", ".join(parts)
