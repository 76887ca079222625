"""Views and the share of users on each, chosen by their worst regret over scenarios.

The views are sets of attributes, up to four bits or three attributes with more labels. Sets whose
attributes have the same numbers of labels form a *class*: nothing distinguishes them before
collection, so they have equal shares. A scenario states how large interactions are; given a
scenario the expected error is a convex function of the classes' shares. See noise-aware.md,
section 3.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations, combinations_with_replacement
from math import comb, exp, isfinite, log, prod
from typing import Any

import numpy as np

from calmstream.common.errors import PlanError
from calmstream.estimators.domain import Attributes
from calmstream.estimators.mechanisms.adaptive import best_oracle
from calmstream.estimators.mechanisms.base import Mechanism
from calmstream.estimators.noise_aware.layout import Floats, Layout
from calmstream.estimators.noise_aware.statistics import Statistics, cell_variance, collect
from calmstream.estimators.numerics.covering import balanced
from calmstream.estimators.numerics.grids import LogNormal
from calmstream.estimators.plan.numbers import as_number
from calmstream.estimators.plan.pilots import CollectionPlan
from calmstream.estimators.tally import Tally

LARGEST = {True: 4, False: 3}
"""Number of attributes of the largest view, of bits and of other domains."""

SMALL = 9
"""Views of four are considered up to so many bits: with more, sets of four are too many."""

MAX_SETS, MAX_CELLS = 1024, 1 << 17
"""Maximum number of views of a class of bits, and of cells of all views of a larger class: plans
and their counters stay small."""

STRONG = 0.6
"""Correlation of pairs where one attribute nearly decides the next, as in logs; considered where
nobody states the scale of pairs."""

MEANS = (0.3, 0.8)
"""Mean signs of bits, from nearly even to lopsided ones, whose larger moments hold the smaller."""

THIRDS = (0.4, 2.0)
"""What pairs do not predict of an interaction of three, in its prior deviation: usually, and where
answers depend as strongly as those of one person in several years."""

STEPS, ROUNDS = 40, 12
"""Multiplicative steps of the shares given the weights of scenarios, and changes of the weights."""

SHARPNESS = 4.0
"""Weight of a scenario's regret in the logarithm of its weight: 0 would be the mean error, infinity
the worst regret alone."""

FLOOR = 0.05
"""Share of the users on all pairs alike where views hold some pairs only: no pair is left out."""

LEAST_SHARE = 0.02
"""A class with a smaller share of the users is left out: it costs a topic and gains nothing."""


@dataclass(frozen=True, slots=True, eq=False)
class ViewShares:
    """Views with positive shares that sum to 1."""

    views: tuple[Attributes, ...]  # Attribute sets
    shares: Floats  # (views,)
    # Expected sum of squared errors of a marginal by its number of attributes, 1 to 3 and k: mean
    # over the usual scenarios.
    expected: dict[int, float]


def allocate(
    cardinalities: Sequence[int], users: int, epsilon: str, k: int, prior: PriorScales | None = None
) -> ViewShares:
    """Return the allocation of least worst regret for marginals of ``k`` attributes.

    ``prior`` None stands for the default scales.
    """
    return _Problem(tuple(cardinalities), users, epsilon, prior or PriorScales()).solve(k)


@lru_cache(maxsize=4096)
def oracle(epsilon: str, cells: int) -> tuple[Mechanism, float]:
    """Return the best mechanism for a table of ``cells``, and its precision of a coefficient.

    The precision (inverse variance) is that of one report.
    """
    mechanism = best_oracle(epsilon, cells)
    return mechanism, 1.0 / (cells * cell_variance(mechanism))


Class = tuple[int, ...]
"""Numbers of labels of the attributes of a set, ascending."""


@dataclass(frozen=True, slots=True, eq=False)
class Scenario:
    """What a design assumes of interactions.

    Bits with a mean m have moments that hold those of fewer bits: one of all attributes of a set
    and j more says as much about that set as m^2j such reports. A view's moments together thus say
    (1 + m^2)^j times as much, with j its attributes beyond the set.
    """

    variances: Floats  # (sets,): prior variances of an interaction's direction of each class
    precision: Floats  # (sets, views): precisions by all users on a class of views


class _Problem:
    """The expected errors as functions of the classes' shares."""

    def __init__(self, cards: Class, users: int, epsilon: str, prior: PriorScales) -> None:
        self.cards, self.d, self.users, self.prior = cards, len(cards), users, prior
        self.count, self.bits = Counter(cards), set(cards) == {2}
        top = min(LARGEST[self.bits] if not self.bits or self.d <= SMALL else 3, self.d)
        self.sets = [own for size in range(1, top + 1) for own in self._classes(size)]
        self.views = [own for own in self.sets if self.bits or self._few(own)]
        known = [users * oracle(epsilon, prod(view))[1] for view in self.views]
        held = [[self._held(own, view) for view in self.views] for own in self.sets]
        self.precision = np.array(held) * np.array(known)  # (sets, views): by all users on a view
        self.order = np.array([len(own) for own in self.sets])
        self.number = np.array([self._number(own) for own in self.sets], np.float64)
        self.mean_cells = exp(float(np.log(cards).mean()))
        free = [prod(1.0 - 1.0 / r for r in own) for own in self.sets]
        self.energy = self.number * free

    def _classes(self, size: int) -> list[Class]:
        found = combinations_with_replacement(sorted(self.count), size)
        return [own for own in found if self._number(own)]

    def _number(self, own: Class) -> int:
        """Return how many sets a class has."""
        return prod(comb(self.count[r], n) for r, n in Counter(own).items())

    def _few(self, own: Class) -> bool:
        return len(own) < 3 or self._number(own) * prod(own) <= MAX_CELLS

    def _held(self, own: Class, view: Class) -> float:
        """Return the share of a class's views that hold a set of a class."""
        inside, all_ = Counter(own), Counter(view)
        ways = 1.0
        for r, n in (inside | all_).items():
            a, b, c = inside[r], all_[r], self.count[r]
            ways *= comb(c - a, b - a) / comb(c, b) if n == b else 0.0
        return ways

    def scenarios(self) -> list[Scenario]:
        """Return the scenarios; those of the usual scales of pairs come first."""
        first, _, *rest = (*self.prior.scales, 0.0, 0.0)
        unknown = self.prior.pairs == PriorScales().pairs
        size = np.array([len(view) for view in self.views])
        more = np.maximum(size - self.order[:, None], 0)  # attributes of a view beyond a set
        found = []
        for pair in (*self.prior.pairs, *([STRONG] if unknown else [])):
            for mean in MEANS if self.bits else (0.0,):
                precision = self.precision * (1.0 + mean**2) ** more
                for ratio in THIRDS:
                    scale = np.array([0.0, first, pair, ratio * rest[0], ratio * rest[1]])
                    spread = (1.0 - mean**2) ** self.order
                    found.append(Scenario(np.square(scale[self.order]) * spread, precision))
        return found

    def weights(self, k: int) -> Floats:
        """Return the weight of a class's variance in the error of k-way tables: (sets,)."""
        part = np.array([comb(k, o) / comb(self.d, o) for o in self.order.tolist()])
        return np.asarray(part * self.mean_cells ** (self.order - k) * self.energy)

    def error(self, shares: Floats, scenario: Scenario, k: int) -> tuple[float, Floats]:
        """Return the expected error of k-way tables, and minus its slopes by the shares.

        Half of the energy of pairs is common to d / 2 of them.
        """
        weight, known = self.weights(k), scenario.precision @ shares
        total, slope = 0.0, np.zeros(len(self.views))
        pair = self.order == 2
        for part, pooled in ((np.where(pair, 0.5, 1.0), 1.0), (0.5 * pair, max(self.d / 2, 1.0))):
            prior = part * scenario.variances
            shrink = prior / (1.0 + prior * pooled * known)
            total += float(weight @ shrink)
            slope += (weight * np.square(shrink) * pooled) @ scenario.precision
        return total, slope

    def best(self, start: Floats, scenarios: Sequence[Scenario], by: Floats, k: int) -> Floats:
        """Return the shares of least mean log error, with weights ``by`` of the scenarios."""
        shares = start
        for _ in range(STEPS):
            slope = np.zeros(len(shares))
            for own, weight in zip(scenarios, by.tolist(), strict=True):
                if weight > 0.0:
                    total, down = self.error(shares, own, k)
                    slope += weight / total * down
            shares = shares * np.sqrt(slope)
            shares = shares / shares.sum()
        return shares

    def solve(self, k: int) -> ViewShares:
        """Return the shares of least regret; scenarios with a larger regret weigh more."""
        scenarios = self.scenarios()
        even = np.full(len(self.views), 1.0 / len(self.views))
        alone = np.eye(len(scenarios))
        least = [
            log(self.error(self.best(even, scenarios, by, k), own, k)[0])
            for own, by in zip(scenarios, alone, strict=True)
        ]
        by, shares = np.full(len(scenarios), 1.0 / len(scenarios)), even
        for _ in range(ROUNDS):
            shares = self.best(shares, scenarios, by, k)
            regret = [log(self.error(shares, own, k)[0]) for own in scenarios] - np.array(least)
            wanted = np.exp(SHARPNESS * (regret - regret.max()))
            by = 0.5 * (by + wanted / wanted.sum())
        shares = np.where(shares < LEAST_SHARE / len(shares), 0.0, shares)
        if (self.precision[self.order == 2] @ shares == 0.0).any():
            pairs = np.array([self._number(view) * (len(view) == 2) for view in self.views])
            shares = (1.0 - FLOOR) * shares / shares.sum() + FLOOR * pairs / pairs.sum()
        shares = shares / shares.sum()
        means = len(MEANS) if self.bits else 1
        usual = scenarios[: len(self.prior.pairs) * means * len(THIRDS) : means * len(THIRDS)]
        sizes = sorted({*range(1, min(self.d, 3) + 1), k})
        expected = {
            t: float(np.mean([self.error(shares, own, t)[0] for own in usual])) for t in sizes
        }
        return ViewShares(*self._sets(shares), expected)

    def _sets(self, shares: Floats) -> tuple[tuple[Attributes, ...], Floats]:
        """Return the views of all classes with their shares."""
        views: list[Attributes] = []
        found: list[Floats] = []
        by_class: dict[Class, list[Attributes]] = {}
        for size in {len(view) for view in self.views}:
            if len(self.count) == 1 and comb(self.d, size) > MAX_SETS:
                by_class[tuple(self.cards[:size])] = list(balanced(self.d, size, MAX_SETS))
                continue
            for own in combinations(range(self.d), size):
                by_class.setdefault(tuple(sorted(self.cards[i] for i in own)), []).append(own)
        for view, share in zip(self.views, shares.tolist(), strict=True):
            if share > 0.0:
                own_sets = by_class[view]
                views += own_sets
                found.append(np.full(len(own_sets), share / len(own_sets)))
        return tuple(views), np.concatenate(found)


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


LEAST_SCALE = 1e-3
"""Smallest prior scale: an order that is stated to be absent still gets some users."""


@dataclass(frozen=True, slots=True)
class PriorScales:
    """Deviations of interactions that the design assumes; the defaults are mid-range."""

    # Deviation of a coefficient of order 1, 2 and so on; 0 for higher orders. For binary attributes
    # order 1 is the scale of means, and higher orders are correlations.
    scales: tuple[float, ...] = (0.6, 0.1, 0.05, 0.03)
    # Equally likely deviations of order 2; several, as they are not known before collection.
    pairs: tuple[float, ...] = (0.05, 0.1, 0.2)

    @classmethod
    def of(cls, scales: Sequence[float], pairs: Sequence[float] = ()) -> PriorScales:
        """Return the scales of order 1, 2 and so on, raised to `LEAST_SCALE`.

        ``pairs`` are the equally likely scales of order 2; empty: only that of ``scales``.
        """
        kept = tuple(max(s, LEAST_SCALE) for s in (*scales, 0.0)[: max(2, len(scales))])
        return cls(kept, tuple(max(s, LEAST_SCALE) for s in pairs) or kept[1:2])


def stated_scale(median: float) -> LogNormal:
    """Return the prior of a scale to learn: within a factor of 2 of the median in 2 of 3 cases.

    With median 0.1 the middles of its three thirds are the default scales of pairs.
    """
    return LogNormal(LEAST_SCALE, 1.0, 200, median, float(np.log(2.0)))


MAX_LIKELY = 16
"""Maximum number of equally likely scales of pairs; the design evaluates scenarios with each."""


def learn_scales(plan: CollectionPlan, tallies: Sequence[Tally]) -> list[Any]:
    """Learn the parameter ``prior_sizes`` from counts, one tally a group of the plan.

    Its first entry is the posterior median of the scale of order 1. The second is a list of three
    equally likely scales of pairs: the middles of the thirds of their posterior distribution. The
    others, of order 3 and 4, keep their default ratio to order 2. Cost: O(200 pairs).
    """
    layout = Layout(plan.domain.cardinalities)
    statistics = collect(plan, tallies, layout)
    free = np.array([r - 1 for r in layout.cardinalities], np.float64)
    starts = [own.start for own in layout.own]
    precision = statistics.mean_precision[starts]
    energy = np.add.reduceat(np.square(statistics.means), starts)
    # Noise of one direction of an attribute, inf without estimate.
    noise = np.where(precision > 0, 1.0 / np.where(precision > 0, precision, 1.0), np.inf)
    first, second, *rest = PriorScales().scales
    prior_one, prior_two = stated_scale(first), stated_scale(second)
    one = _posterior(energy, noise, free, prior_one)
    two = _posterior(*_pairs(layout, statistics, energy, noise, free), prior_two)
    middle = _quantile(two, 1 / 2, prior_two)
    likely = [_rounded(_quantile(two, share, prior_two)) for share in (1 / 6, 1 / 2, 5 / 6)]
    higher = [_rounded(scale * middle / second) for scale in rest]
    return [_rounded(_quantile(one, 1 / 2, prior_one)), likely, *higher]


def _pairs(
    layout: Layout, statistics: Statistics, energy: Floats, noise: Floats, free: Floats
) -> tuple[Floats, Floats, Floats]:
    """Return energy, noise of one direction and number of directions of pairs with an estimate."""
    rows = []
    # Energy of the means without noise, clipped to what a mean can have.
    known = np.clip(energy - np.where(np.isfinite(noise), noise, 0.0) * free, 0.0, free) / free
    for i, j in combinations(range(len(free)), 2):
        a, b = layout.own[i], layout.own[j]
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
