"""Views and the share of users on each, with the least expected posterior error of the answers.

Categorical domains have all single attributes and all pairs as views, and all sets of three where
they pay off; their shares solve a convex problem. Binary domains have all pairs, triples or sets of
four, with a share of single attributes that is chosen from nine, by the geometric mean of the error
over scenarios. See noise-aware.md, section 3.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations, compress
from math import comb, exp, sqrt

import numpy as np

from calmstream.estimators.domain import Attributes
from calmstream.estimators.mechanisms.adaptive import best_oracle
from calmstream.estimators.mechanisms.base import Mechanism
from calmstream.estimators.noise_aware.arrays import Floats
from calmstream.estimators.noise_aware.design.exchangeable import Scenario, variances
from calmstream.estimators.noise_aware.design.triples import TripleViews
from calmstream.estimators.noise_aware.input.statistics import cell_variance
from calmstream.estimators.noise_aware.priors import (
    SCENARIO_MEANS,
    STRONG_THIRD,
    UNPREDICTED_THIRD,
    PriorScales,
)
from calmstream.estimators.numerics.covering import balanced
from calmstream.estimators.numerics.subsets import sets_up_to

FLOOR = 0.05
"""Smallest share of users on pairs, so that their scale can be learnt whatever the prior says."""

LARGEST_SET = 4
"""Number of attributes of the largest view where order four is modelled; it is 3 elsewhere."""

LARGEST_GAIN = 0.03
"""Expected gain in log error from which on the largest views are chosen; with a smaller expected
gain they are worse in practice."""

MAX_SETS = 1024
"""Maximum number of views of several attributes, so that a plan and its counters stay small."""

LEAST_UNPREDICTED = 0.25
"""Views of three categorical attributes are considered where interactions that pairs do not predict
are at least this part of the expected error; elsewhere such views gain nothing in practice."""

LEAST_REGRET = 0.25
"""Least logarithm of the ratio of errors, to the best design's, that changes a design."""

SMALL, MAX_ATTRIBUTES = 9, 16
"""Up to so many bits views of four are considered, and from there on up to so many all of three."""

MAX_ORDER, READ_ORDER = 4, 3
"""Highest order of interactions that the design assumes, and of moments that it reads beyond."""

STEPS = 60
"""Multiplicative steps of shares: enough for shares that hardly change."""


@dataclass(frozen=True, slots=True, eq=False)
class ViewShares:
    """Views with positive shares that sum to 1."""

    views: tuple[Attributes, ...]  # Attribute sets
    shares: Floats  # (views,)
    size: int  # Number of attributes of the larger views
    # Expected sum of squared errors of a marginal by its number of attributes, 1 to 3 and k: mean
    # over the prior, for binary domains in the scenario with means nearest to uniform.
    expected: dict[int, float]


def allocate(
    cardinalities: Sequence[int], users: int, epsilon: str, k: int, prior: PriorScales | None = None
) -> ViewShares:
    """Return the allocation with the least expected error of marginals of ``k`` attributes.

    ``prior`` None stands for the default scales.
    """
    problem = _Problem(tuple(cardinalities), users, epsilon, prior or PriorScales())
    d = len(cardinalities)
    if d == 1:
        return ViewShares(((0,),), np.ones(1), 1, problem.expected(problem.single, np.zeros(0), 1))
    return problem.sets(k) if all(r == 2 for r in cardinalities) else problem.pairs(k)


@lru_cache(maxsize=4096)
def oracle(epsilon: str, cells: int) -> tuple[Mechanism, float]:
    """Return the best mechanism for a table of ``cells``, and its precision of a coefficient.

    The precision (inverse variance) is that of one report.
    """
    mechanism = best_oracle(epsilon, cells)
    return mechanism, 1.0 / (cells * cell_variance(mechanism))


class _Problem:
    """The expected error as a function of views and shares, and its minimum."""

    def __init__(
        self, cardinalities: tuple[int, ...], users: int, epsilon: str, prior: PriorScales
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
        """Return the expected error of a k-way table and minus its slopes by the precisions.

        ``one`` and ``two`` are the precisions of coefficients of order 1, (d,), and 2, (pairs,).
        Half of the prior energy of pairs counts as common to ``d / 2`` pairs.
        """
        d, (i, j) = self.d, self.upper
        weight1 = k / d * (self.r - 1) / self.r * self.mean_cells ** (1 - k)
        total, slope1 = _posterior(one, self.prior.scales[0] ** 2, weight1)
        if k < 2:
            return total, slope1, np.zeros(two.size)
        free = (self.r[i] - 1) * (self.r[j] - 1) / (self.r[i] * self.r[j])
        weight2 = comb(k, 2) / comb(d, 2) * free * self.mean_cells ** (2 - k)
        pooled = max(d / 2, 1.0)
        slope2 = np.zeros(two.size)
        for scale in self.prior.pairs:
            half, weight = scale**2 / 2, weight2 / len(self.prior.pairs)
            own, slope_own = _posterior(two, half, weight)
            common, slope_common = _posterior(two * pooled, half, weight)
            total += own + common
            slope2 += slope_own + pooled * slope_common
        return total, slope1, slope2

    def expected(self, one: Floats, two: Floats, k: int, unknown: float = 1.0) -> dict[int, float]:
        """Return the expected error of 1- to 3-way and k-way tables.

        ``unknown`` is the share of the prior variance of order three that remains.
        """
        return {t: self.error(one, two, t)[0] + self._higher(t, unknown) for t in self._sizes(k)}

    def _sizes(self, k: int) -> list[int]:
        return sorted({*range(1, min(self.d, 3) + 1), k})

    def _higher(self, k: int, unknown: float) -> float:
        """Expected error of orders three and above; those above three have no reports."""
        total = 0.0
        for order in range(3, min(k, len(self.prior.scales)) + 1):
            free = (1.0 - 1.0 / self.mean_cells) ** order
            scale = self.prior.scales[order - 1]
            left = scale**2 * (unknown if order == 3 else 1.0)
            total += comb(k, order) * free * self.mean_cells ** (order - k) * left
        return total

    def pairs(self, k: int) -> ViewShares:
        """Return the best shares of single attributes, pairs and, where they pay off, triples.

        Triples are considered where what pairs do not predict is `LEAST_UNPREDICTED` of the error.
        As the problem is convex, they pay off if and only if a share of users on one of them
        reduces the error by more than it does on the other views. Where strong interactions would
        give these shares `LEAST_REGRET`, the best shares for interactions between usual and strong
        are taken, if their largest regret is less.
        """
        d, size = self.d, self.upper[0].size
        usual, strong = self._triples(UNPREDICTED_THIRD), self._triples(STRONG_THIRD)
        shares, pays = self._for_usual(usual, k)
        if strong.sets and k > 2:
            between = self._triples(sqrt(UNPREDICTED_THIRD * STRONG_THIRD))
            other, _ = self._steps(self._even(between), between, k)
            errors = np.array(
                [[self._with(own, t, k) for t in (usual, strong)] for own in (shares, other)]
            )
            regret = np.log(errors / errors.min(axis=0)).max(axis=1)
            if regret[0] > max(LEAST_REGRET, float(regret[1])):
                shares, pays = other, True
        one, two, three = shares
        one, two = one * (1 - FLOOR), two * (1 - FLOOR) + FLOOR / size
        three = three * (1 - FLOOR)
        members = (*sets_up_to(d, 2).members, *(usual.sets if pays else ()))
        all_shares = np.concatenate([one, two, three])[: len(members)]
        kept = all_shares > 1e-4 / all_shares.size  # smaller shares stand for next to no user
        views = tuple(compress(members, kept.tolist()))
        first, second, third = self._precisions_with((one, two, three), usual)
        expected = self.expected(first, second, k, usual.unknown(third))
        return ViewShares(views, all_shares[kept] / all_shares[kept].sum(), 2 + pays, expected)

    def _triples(self, ratio: float) -> TripleViews:
        """Return triples whose interactions have so many times the prior scale of order three."""
        return TripleViews(
            self.r.tolist(),
            lambda cells: self.users * self._information(cells),
            ratio * (*self.prior.scales, 0.0)[2],
        )

    def _even(self, triples: TripleViews) -> tuple[Floats, Floats, Floats]:
        """Return shares to start from."""
        pairs, sets = self.upper[0].size, len(triples.sets)
        return (
            np.full(self.d, 1.0 / self.d),
            np.full(pairs, 1.0 / pairs),
            np.ones(sets) / max(sets, 1),
        )

    def _for_usual(
        self, triples: TripleViews, k: int
    ) -> tuple[tuple[Floats, Floats, Floats], bool]:
        """Return the best shares for usual interactions, and whether triples have any."""
        one, two, three = self._even(triples)
        shares, pays = self._steps((one, two, 0.0 * three), triples, k)
        least = LEAST_UNPREDICTED * self.error(*self._precision(*shares[:2]), k)[0]
        if pays and triples.unpredicted(k) >= least:
            return self._steps((one, two, three), triples, k)[0], True
        return shares, False

    def _with(self, shares: tuple[Floats, Floats, Floats], triples: TripleViews, k: int) -> float:
        """Return the expected error of a k-way table with triples' interactions."""
        first, second, third = self._precisions_with(shares, triples)
        return self.error(first, second, k)[0] + triples.left(third, k)

    def _precisions_with(
        self, shares: tuple[Floats, Floats, Floats], triples: TripleViews
    ) -> tuple[Floats, Floats, Floats]:
        """Return the precisions of coefficients of order 1, 2 and 3 from all views."""
        one, two, three = shares
        first, second = self._precision(one, two)
        more, others, third = triples.precisions(three, one.size, two.size)
        return first + more, second + others, third

    def _steps(
        self, shares: tuple[Floats, Floats, Floats], triples: TripleViews, k: int
    ) -> tuple[tuple[Floats, Floats, Floats], bool]:
        """Return the best shares of single attributes, pairs and triples from a start.

        Shares of 0 stay 0. Also return whether a triple gains more than the shares do.
        """
        i, j = self.upper
        one, two, three = (own / sum(s.sum() for s in shares) for own in shares)
        for _ in range(STEPS):
            first, second, third = self._precisions_with((one, two, three), triples)
            _, slope1, slope2 = self.error(first, second, k)
            by_single = slope1 * self.single
            by_pair = (slope1[i] + slope1[j] + slope2) * self.double
            by_triple = triples.gain(slope1, slope2, triples.slope(third, k))
            gained = one @ by_single + two @ by_pair + three @ by_triple
            one, two = one * np.sqrt(by_single), two * np.sqrt(by_pair)
            three = three * np.sqrt(by_triple)
            total = one.sum() + two.sum() + three.sum()
            one, two, three = one / total, two / total, three / total
        return (one, two, three), bool((by_triple > gained).any())

    def _precision(self, one: Floats, two: Floats) -> tuple[Floats, Floats]:
        i, j = self.upper
        second = two * self.double
        first = one * self.single
        first = first + np.bincount(i, second, self.d) + np.bincount(j, second, self.d)
        return first, second

    def sets(self, k: int) -> ViewShares:
        """Return the best size of sets of binary attributes and the best share of single ones.

        All sets of a size have equal shares. Cost: a few small matrices for each of at most 27
        designs in each of 16 scenarios.
        """
        d = self.d
        largest = LARGEST_SET if d <= SMALL else 3
        singles = (*(np.arange(8) / 8.0), 1.0 - FLOOR)
        designs = [(s, v) for v in range(2, min(largest, d) + 1) for s in singles]
        precision = np.array([self._precisions(*design) for design in designs])
        sizes = self._sizes(k)
        variance = self._in_scenarios(precision, max(sizes))
        score = np.log(variance @ self._weights(k, max(sizes))).mean(axis=0)
        usual = 3 if d <= MAX_ATTRIBUTES else 2
        score += [LARGEST_GAIN if size > usual else 0.0 for _, size in designs]
        best = int(np.argmin(score))
        single, size = designs[best]
        views, shares = _views(d, size, single)
        even = variance[: len(self.prior.pairs), best].mean(axis=0)  # scenarios of the first mean
        expected = {t: float(even @ self._weights(t, max(sizes))) for t in sizes}
        return ViewShares(views, shares, size, expected)

    def _weights(self, k: int, top: int) -> Floats:
        """Return the weight of each order's variance in the error of k-way tables: (top,)."""
        orders = range(1, top + 1)
        return np.array([comb(k, o) / comb(self.d, o) for o in orders]) / 2.0**k

    def _precisions(self, single: float, size: int) -> Floats:
        """Return the inverse noise variance of a moment of order 1, 2 and so on."""
        information = self.users * self._information(2.0**size)
        held = [comb(size, o) / comb(self.d, o) for o in range(1, min(LARGEST_SET, self.d) + 1)]
        out = (1.0 - single) * information * np.array(held)
        out[0] += single / self.d * float(self.single[0])
        return out

    def _in_scenarios(self, precision: Floats, top: int) -> Floats:
        """Return posterior variances summed by order 1 to ``top``: (scenarios, designs, top)."""
        d, scales = self.d, self.prior.scales
        usual, largest_mean = PriorScales().scales[0], 0.97
        strong = 2.0 * max(self.prior.pairs)  # strong dependence punishes single attributes most
        modelled = min(MAX_ORDER if d <= SMALL else 2, d)
        read = min(max(modelled, READ_ORDER), d)
        found = []
        for mean in SCENARIO_MEANS:
            m = min(mean * scales[0] / usual, largest_mean)
            for pair in (*self.prior.pairs, strong):
                correlations = (pair, *scales[2:])
                weights = [c / (1.0 - m * m) ** (o / 2) for o, c in enumerate(correlations, 2)]
                scenario = Scenario(d, m, tuple(weights[: modelled - 1]), max(top, read))
                found.append(variances(scenario, precision[:, :read])[:, :top])
        out = np.stack(found)
        if modelled == 2 and top > 2 and len(scales) > 2:
            own = scales[2] ** 2
            out[:, :, 2] += comb(d, 3) * own / (1.0 + own * precision[:, 2])
        return out


def _views(d: int, size: int, single: float) -> tuple[tuple[Attributes, ...], Floats]:
    """Return views and shares: all sets of a size, or many that are spread evenly, and singles.

    ``single`` is the share of all single attributes together; if it is 0 they are left out.
    """
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
    """Return ``sum weight prior / (1 + prior precision)`` and minus its slope by the precision."""
    shrink = prior / (1.0 + prior * precision)
    return float((weight * shrink).sum()), weight * np.square(shrink)


def integer_shares(shares: Floats) -> tuple[int, ...]:
    """Return positive integers in these proportions, to about six digits."""
    scaled = np.maximum(np.rint(shares / shares.max() * (1 << 20)), 1)
    return tuple(int(s) for s in scaled)


def describe(allocation: ViewShares) -> str:
    """Describe the shares in a sentence."""
    by_size: dict[int, float] = {}
    for view, share in zip(allocation.views, allocation.shares, strict=True):
        by_size[len(view)] = by_size.get(len(view), 0.0) + float(share)
    parts = [
        f"{share:.0%} on {sum(len(v) == size for v in allocation.views)} views of {size}"
        for size, share in sorted(by_size.items())
    ]
    return ", ".join(parts)
