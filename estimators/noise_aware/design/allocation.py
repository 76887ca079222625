"""Who reports on what: shares that minimise the expected posterior error of the workload.

A coefficient of an interaction of order o has prior variance s_o^2 and, with n reports on a view of
L cells that holds it, noise variance V = L v / n (`statistics`).

**Categorical attributes**: all single ones with all pairs, in any proportion. The expected error
``s^2 V / (s^2 + V)``, summed over the interactions of a k-way table, each weighted by the number of
workload tables it is in over their cells, is convex in the shares. Of pair interactions one half of
the prior energy is taken as shared (a few causes move all pairs), so that all d pairs of an
attribute speak about it: its noise is that of d / 2 times as many reports.

**Binary attributes**: all pairs, triples or sets of four (where these are read), with single
attributes in nine proportions. There, a pair of attributes of means m_1 and m_2 has the moment
m_1 m_2 plus what one has to do with the other, and so speaks about both means; `exchangeable` knows
how much. Nobody knows m, nor the sizes of interactions, beforehand: the design taken is the one of
least expected error, in the geometric mean over worlds from even to lopsided attributes and from
small to large interactions, so that no one world, where errors are large anyway, decides.

A floor stays on pairs, so that the sizes of interactions can be learnt whatever the prior says.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from math import comb, exp
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray

from estimators.mechanisms import best_oracle
from estimators.noise_aware.design.exchangeable import World, variances
from estimators.noise_aware.input.statistics import cell_variance
from estimators.noise_aware.models.joint import (
    MAX_ATTRIBUTES,
    MAX_ORDER,
    MAX_VIEW,
    READ_ORDER,
    SMALL,
)
from estimators.numerics.covering import balanced

if TYPE_CHECKING:
    from collections.abc import Sequence

    from estimators.domain import Attributes
    from estimators.mechanisms.base import Mechanism

Floats = NDArray[np.float64]

PRIOR_SIZES = (0.6, 0.1, 0.05, 0.03)
"""Standard deviation of a coefficient of order 1, 2, 3, 4; higher orders are taken as 0."""

PAIR_SIZES = (0.05, 0.1, 0.2)
"""That of order 2 is not known beforehand: these are taken as equally likely."""

MEANS = (0.13, 0.38, 0.66, 0.9)
"""Means of binary attributes that are taken as equally likely where they are of size 0.6: tanh of
the middles of four equal parts of a standard normal law, the prior of the joint model's fields."""

LARGEST_MEAN = 0.97

STRONG = 2.0
"""One world more has pairs this many times as large as the largest likely ones: who asks about
single attributes alone loses most where attributes depend most on each other."""

LEAST_SIZE = 1e-3
"""Smaller sizes are taken as this one: what is said to be nothing keeps the floor's reports."""

FLOOR = 0.05
LARGEST_SET = 4

LARGEST_LACK = 0.03
"""Sets of four, and with more than 16 attributes sets of three, have to promise this much less
error (its logarithm) than smaller ones. On data made for development they had a sixth more for
tables of three, or of two, where the promise was below that."""

MAX_SETS = 1024
"""Most sets of three or four attributes."""

_ROUNDS = 60
_SINGLE_SHARES = (*(np.arange(8) / 8.0), 1.0 - FLOOR)


@dataclass(frozen=True, slots=True, eq=False)
class Allocation:
    """Views with positive shares that sum to 1.

    Attributes:
        views: attribute sets.
        shares: shape (views,).
        size: attributes of the larger views.
        expected: expected posterior SSE by size of marginal, 1 to 3 and k, in the mean over the
            prior; of binary attributes where they are most even, as other methods' errors are
            foretold.
    """

    views: tuple[Attributes, ...]
    shares: Floats
    size: int
    expected: dict[int, float]


@dataclass(frozen=True, slots=True)
class Prior:
    """How large interactions are thought to be.

    Attributes:
        sizes: standard deviation of a coefficient of order 1, 2 and so on; beyond them 0. Of binary
            attributes that of order 1 is the size of means, and those above are of correlations.
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
    return problem.sets(k) if all(r == 2 for r in cardinalities) else problem.pairs(k)


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
        """Expected error of 1- to 3-way and k-way tables."""
        return {t: self.error(one, two, t)[0] + self._higher(t) for t in self._sizes(k)}

    def _sizes(self, k: int) -> list[int]:
        return sorted({*range(1, min(self.d, 3) + 1), k})

    def _higher(self, k: int) -> float:
        """Expected error of orders three and above, which nobody reports on."""
        total = 0.0
        for order in range(3, min(k, len(self.prior.sizes)) + 1):
            free = (1.0 - 1.0 / self.mean_cells) ** order
            size = self.prior.sizes[order - 1]
            total += comb(k, order) * free * self.mean_cells ** (order - k) * size**2
        return total

    def pairs(self, k: int) -> Allocation:
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
        views = [(int(x),) for x in range(self.d)] + [
            (int(x), int(y)) for x, y in zip(i, j, strict=True)
        ]
        shares = np.concatenate([one, two])
        kept = shares > 1e-4 / shares.size
        return Allocation(
            tuple(v for v, keep in zip(views, kept, strict=True) if keep),
            shares[kept] / shares[kept].sum(),
            2,
            self.expected(a, b, k),
        )

    def _precision(self, one: Floats, two: Floats) -> tuple[Floats, Floats]:
        i, j = self.upper
        second = two * self.double
        first = one * self.single
        first = first + np.bincount(i, second, self.d) + np.bincount(j, second, self.d)
        return first, second

    def sets(self, k: int) -> Allocation:
        """Sets of binary attributes, all alike, with the best share of single ones.

        Cost: designs, at most 27, times 16 worlds times a few small matrices.
        """
        d = self.d
        largest = LARGEST_SET if d <= SMALL else MAX_VIEW
        designs = [(s, v) for v in range(2, min(largest, d) + 1) for s in _SINGLE_SHARES]
        precision = np.array([self._precisions(*design) for design in designs])
        sizes = self._sizes(k)
        variance = self._in_worlds(precision, max(sizes))
        score = np.log(variance @ self._held(k, max(sizes))).mean(axis=0)
        most = MAX_VIEW if d <= MAX_ATTRIBUTES else MAX_VIEW - 1
        score += [LARGEST_LACK if size > most else 0.0 for _, size in designs]
        best = int(np.argmin(score))
        single, size = designs[best]
        views, shares = _laid(d, size, single)
        even = variance[: len(self.prior.pairs), best].mean(axis=0)  # over the first worlds
        expected = {t: float(even @ self._held(t, max(sizes))) for t in sizes}
        return Allocation(views, shares, size, expected)

    def _held(self, k: int, top: int) -> Floats:
        """What the summed variance of an order weighs in the error of k-way tables: (top,)."""
        orders = range(1, top + 1)
        return np.array([comb(k, o) / comb(self.d, o) for o in orders]) / 2.0**k

    def _precisions(self, single: float, size: int) -> Floats:
        """Inverse noise variance of a moment of order 1, 2 and so on."""
        information = self.users * self._information(2.0**size)
        held = [comb(size, o) / comb(self.d, o) for o in range(1, min(LARGEST_SET, self.d) + 1)]
        out = (1.0 - single) * information * np.array(held)
        out[0] += single / self.d * float(self.single[0])
        return out

    def _in_worlds(self, precision: Floats, top: int) -> Floats:
        """Posterior variances summed by order, 1 to ``top``: shape (worlds, designs, top)."""
        d, sizes = self.d, self.prior.sizes
        modelled = min(MAX_ORDER if d <= SMALL else 2, d)
        read = min(max(modelled, READ_ORDER), d)
        found = []
        for mean in MEANS:
            m = min(mean * sizes[0] / PRIOR_SIZES[0], LARGEST_MEAN)
            for pair in (*self.prior.pairs, STRONG * max(self.prior.pairs)):
                correlations = (pair, *sizes[2:])
                weights = [c / (1.0 - m * m) ** (o / 2) for o, c in enumerate(correlations, 2)]
                world = World(d, m, tuple(weights[: modelled - 1]), max(top, read))
                found.append(variances(world, precision[:, :read])[:, :top])
        out = np.stack(found)
        if modelled == 2 and top > 2 and len(sizes) > 2:
            own = sizes[2] ** 2
            out[:, :, 2] += comb(d, 3) * own / (1.0 + own * precision[:, 2])
        return out


def _laid(d: int, size: int, single: float) -> tuple[tuple[Attributes, ...], Floats]:
    """All sets of that size, or many spread evenly, with single attributes; shares."""
    sets = (
        tuple(combinations(range(d), size))
        if comb(d, size) <= MAX_SETS
        else balanced(d, size, MAX_SETS)
    )
    shares = np.full(len(sets), (1.0 - single) / len(sets))
    if single == 0.0:
        return sets, shares
    return tuple((i,) for i in range(d)) + sets, np.append(np.full(d, single / d), shares)


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
