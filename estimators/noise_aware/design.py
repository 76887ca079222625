"""Views and the share of users on each, chosen by their worst regret over scenarios.

Sets of attributes with the same numbers of labels form a *class*: nothing distinguishes them before
collection, so they have equal shares. See noise-aware.md, section 3.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations, combinations_with_replacement
from math import comb, exp, log, prod
from typing import Any, NamedTuple

import numpy as np

from calmstream.common.errors import PlanError
from calmstream.estimators.domain import Attributes
from calmstream.estimators.mechanisms.adaptive import best_oracle
from calmstream.estimators.mechanisms.base import Mechanism
from calmstream.estimators.noise_aware.layout import LEAST, ORDERS, TYPICAL, Floats, Layout
from calmstream.estimators.noise_aware.statistics import cell_variance, collect
from calmstream.estimators.numerics.covering import balanced
from calmstream.estimators.plan.numbers import as_number
from calmstream.estimators.plan.pilots import CollectionPlan
from calmstream.estimators.tally import Tally

SMALL, MAX_SETS, MAX_CELLS = 9, 1024, 1 << 17
"""Most bits of a domain with views of four, views of a class of bits, and cells of all views of a
larger class: plans and their counters stay small."""

MEANS, THIRDS = (0.3, 0.8), (0.4, 2.0)
"""Scenarios. Mean signs of bits, from nearly even to lopsided ones, whose larger moments hold the
smaller; and what pairs do not predict of an interaction of three, in its prior deviation: usually,
and where answers depend as strongly as those of one person in several years."""

STEPS, ROUNDS, SHARPNESS = 40, 12, 4.0
"""Multiplicative steps of the shares given the weights of scenarios, and changes of the weights.
The logarithm of a weight is sharpness times regret: with 0 the mean error would decide, with
infinity the worst regret alone."""

FLOOR, LEAST_SHARE = 0.05, 0.02
"""Share of the users on all pairs alike where views hold some pairs only: no pair is left out. A
class with less than this part of an even share is: it costs a topic and gains nothing."""


@dataclass(frozen=True, slots=True, eq=False)
class ViewShares:
    """Views with positive shares that sum to 1."""

    views: tuple[Attributes, ...]  # Attribute sets
    shares: Floats  # (views,)


def allocate(
    cardinalities: Sequence[int], users: int, epsilon: str, k: int, prior: PriorScales | None = None
) -> ViewShares:
    """Return the allocation of least regret for marginals of ``k`` attributes."""
    return _Problem(tuple(cardinalities), users, epsilon, prior or PriorScales()).solve(k)


@lru_cache(maxsize=4096)
def oracle(epsilon: str, cells: int) -> tuple[Mechanism, float]:
    """Return the best mechanism for a table, and a coefficient's precision by one report."""
    mechanism = best_oracle(epsilon, cells)
    return mechanism, 1.0 / (cells * cell_variance(mechanism))


Class = tuple[int, ...]
"""Numbers of labels of the attributes of a set, ascending."""


@dataclass(frozen=True, slots=True)
class PriorScales:
    """Deviations of interactions that the design assumes; the defaults are mid-range."""

    # Deviation of a coefficient of order 1, 2 and so on; 0 for higher orders. For binary attributes
    # order 1 is the scale of means, and higher orders are correlations.
    scales: tuple[float, ...] = TYPICAL
    # Equally likely deviations of order 2; several, as they are not known before collection.
    pairs: tuple[float, ...] = (TYPICAL[1] / 2.0, TYPICAL[1], 2.0 * TYPICAL[1])


class Scenario(NamedTuple):
    """What a design assumes of interactions."""

    variances: Floats  # (sets,): prior variances of an interaction's direction of each class
    precision: Floats  # (sets, views): precisions by all users on a class of views


class _Problem:
    """The expected errors as functions of the classes' shares."""

    def __init__(self, cards: Class, users: int, epsilon: str, prior: PriorScales) -> None:
        self.cards, self.d, self.users, self.prior = cards, len(cards), users, prior
        self.count, self.bits = Counter(cards), set(cards) == {2}
        top = min(ORDERS[self.bits and self.d <= SMALL], self.d)
        classes = [combinations_with_replacement(sorted(self.count), n + 1) for n in range(top)]
        self.sets = [own for found in classes for own in found if self._number(own)]
        few = [len(s) < 3 or self._number(s) * prod(s) <= MAX_CELLS for s in self.sets]
        self.views = [s for s, n in zip(self.sets, few, strict=True) if self.bits or n]
        known = [users * oracle(epsilon, prod(view))[1] for view in self.views]
        held = [[self._held(own, view) for view in self.views] for own in self.sets]
        self.precision = np.array(held) * np.array(known)  # (sets, views): by all users on a view
        self.order = np.array([len(own) for own in self.sets])
        self.mean_cells = exp(float(np.log(cards).mean()))
        free = [prod(1.0 - 1.0 / r for r in own) for own in self.sets]
        self.energy = np.array([self._number(own) for own in self.sets], np.float64) * free

    def _number(self, own: Class) -> int:
        return prod(comb(self.count[r], n) for r, n in Counter(own).items())

    def _held(self, own: Class, view: Class) -> float:
        """Return the share of a class's views that hold a set of a class."""
        inside, all_ = Counter(own), Counter(view)
        ways = 1.0
        for r, n in (inside | all_).items():
            a, b, c = inside[r], all_[r], self.count[r]
            ways *= comb(c - a, b - a) / comb(c, b) if n == b else 0.0
        return ways

    def scenarios(self) -> list[Scenario]:
        """Return the scenarios.

        Where nobody states the scale of pairs, one attribute may nearly decide the next, as in
        logs: pairs are then as large as single attributes. Bits with a mean m have moments that
        hold those of fewer bits: one of all attributes of a set and j more says as much about that
        set as m^2j such reports. A view's moments together thus say (1 + m^2)^j times as much, with
        j its attributes beyond the set.
        """
        first, _, *rest = (*self.prior.scales, 0.0, 0.0)
        unknown = self.prior.pairs == PriorScales().pairs
        size = np.array([len(view) for view in self.views])
        more = np.maximum(size - self.order[:, None], 0)  # attributes of a view beyond a set
        found = []
        for pair in (*self.prior.pairs, *(TYPICAL[:1] if unknown else ())):
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
        return self._sets(shares / shares.sum())

    def _sets(self, shares: Floats) -> ViewShares:
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
        return ViewShares(tuple(views), np.concatenate(found))


def describe(found: ViewShares) -> str:
    sizes = np.array([len(view) for view in found.views])
    return ", ".join(
        f"{found.shares[sizes == size].sum():.0%} on {(sizes == size).sum()} views of {size}"
        for size in np.unique(sizes)
    )


MAX_LIKELY = 16
"""Maximum number of equally likely scales of pairs; the design evaluates scenarios with each."""


def learn_scales(plan: CollectionPlan, tallies: Sequence[Tally]) -> list[Any]:
    """Learn the parameter ``prior_sizes`` from counts, one tally a group of the plan.

    It holds the posterior median of the scale of order 1, then the middles of the thirds of that of
    pairs. Orders 3 and 4 keep their default ratio to order 2. Cost: O(200 pairs).
    """
    layout = Layout(plan.domain.cardinalities)
    found = collect(plan, tallies, layout)
    free = layout.cardinalities - 1.0
    starts = [own.start for own in layout.own]
    precision = found.mean_precision[starts]
    energy = np.add.reduceat(np.square(found.means), starts)
    known = precision > 0.0
    # Noise of one direction of an attribute, inf without estimate.
    noise = np.divide(1.0, precision, out=np.full(len(free), np.inf), where=known)
    # Energy of the means without noise, clipped to what a mean can have.
    clean = np.clip(energy - np.where(known, noise, 0.0) * free, 0.0, free) / free
    pairs = np.triu(found.product_precision[np.ix_(starts, starts)], 1)
    i, j = np.nonzero(pairs)
    gap = np.square(found.products - np.outer(found.means, found.means))
    both = np.add.reduceat(np.add.reduceat(gap, starts, axis=0), starts, axis=1)[i, j]
    spread = 1.0 / pairs[i, j] + clean[i] * noise[j] + clean[j] * noise[i] + noise[i] * noise[j]
    first, second, *rest = PriorScales().scales
    one = _learnt(energy, noise, free, first)
    two = _learnt(both, spread, free[i] * free[j], second)
    higher = [scale * two[1] / second for scale in rest]
    return [_rounded(one[1]), [_rounded(scale) for scale in two], *map(_rounded, higher)]


def _learnt(energy: Floats, noise: Floats, free: Floats, median: float) -> list[float]:
    """Return the middles of the thirds of a scale's posterior; energies are of ``free`` directions.

    The prior is log-normal, with a factor of 2: the middles of its own thirds are the default.
    """
    scales = np.exp(np.linspace(np.log(LEAST), 0.0, 200))
    known = np.isfinite(noise)
    total = np.square(scales)[:, None] + noise[known]
    likely = 0.5 * (free[known] * np.log(total) + energy[known] / total).sum(axis=1)
    score = -0.5 * np.square(np.log(scales / median) / np.log(2.0)) - likely
    weight = np.exp(score - score.max())
    weight = weight / weight.sum()
    found = np.interp([1 / 6, 1 / 2, 5 / 6], np.cumsum(weight) - weight / 2, scales)
    return [float(scale) for scale in found]


def _rounded(scale: float) -> float:
    return float(f"{min(max(scale, LEAST), 1.0):.4g}")


def read_scales(value: Any) -> PriorScales:
    """Read the parameter ``prior_sizes``: one number for each order from 1 up to at most 4.

    The entry of order 2 may be a list of numbers that are equally likely.
    """
    name, most = "parameter prior_sizes", len(PriorScales().scales)
    if not isinstance(value, list) or not 1 <= len(value) <= most:
        raise PlanError(f"{name}: expected 1 to {most} numbers, of order 1, 2 and so on")
    orders = [v if o == 2 and isinstance(v, list) else [v] for o, v in enumerate(value, 1)]
    if not all(1 <= len(likely) <= MAX_LIKELY for likely in orders):
        raise PlanError(f"{name}: of order 2: expected a number or 1 to {MAX_LIKELY} of them")
    read = [[_size(f"{name}: of order {o}", v) for v in own] for o, own in enumerate(orders, 1)]
    if not any(map(any, read)):
        raise PlanError(f"{name}: all are 0, so there would be nothing to learn")
    kept = [[max(size, LEAST) for size in own] for own in (*read, [0.0])[: max(2, len(read))]]
    return PriorScales(tuple(sum(own) / len(own) for own in kept), tuple(kept[1]))


def _size(where: str, given: Any) -> float:
    size = as_number(given)
    if not isinstance(size, int | float) or isinstance(size, bool) or not 0 <= size <= 1:
        raise PlanError(f"{where}: expected a standard deviation from 0 to 1, got {size!r}")
    return size
