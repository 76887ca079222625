"""DP Marginals (Gopi, Mahabadi and Yekhanin): noisy counts of k-tuples, k = 1..T.

Algorithms 1 and 2 of the paper with the corrected accounting of :mod:`.accounting`, exact integer
noise, and thresholds rounded up to integers with a strict ``>``: a discrete Gaussian's tail at an
integer m is at most the Gaussian's at m - 1 (Canonne, Kamath and Steinke, Proposition 25), so that
the paper's bounds hold as they stand. Neighbours differ by one record, added or removed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil, comb, expm1, log1p, sqrt
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from estimators.central.discrete_gaussian import discrete_gaussian, round_variance
from estimators.central.quantile import private_quantile
from estimators.central.tuples import (
    Cells,
    Columns,
    Integers,
    Locator,
    Records,
    candidates,
    size,
)
from estimators.errors import PlanError

if TYPE_CHECKING:
    from estimators.central.accounting import Allocation
    from estimators.randomness import Randomness

_NORMAL = NormalDist()


@dataclass(frozen=True, slots=True)
class Settings:
    """What the paper leaves to the user.

    Attributes:
        quantile: Q, the share of users whose tuples should all count; in (0, 1].
        spurious: eta, most spurious k-tuples per tuple of the level before; in (0, 1).
        seen_only: Remark 1.1: candidates are only tuples that some record holds, thresholds are
            higher, and there is never a spurious tuple.
    """

    quantile: Fraction = Fraction(99, 100)
    spurious: Fraction = Fraction(1, 100)
    seen_only: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.quantile <= 1 or self.quantile.denominator > 10_000:
            raise PlanError("quantile must lie in (0, 1], with at most four decimals")
        if not 0 < self.spurious < 1:
            raise PlanError("spurious must lie between 0 and 1")


@dataclass(frozen=True, slots=True, eq=False)
class Level:
    """S_k and H_k.

    Attributes:
        k: size of the tuples.
        limit: Delta_k, most tuples of one record that counted.
        variance: of each count's noise, sigma_k^2 Delta_k rounded up.
        threshold: counts are above it.
        candidates: |V_k| where it is public (k >= 2 and not ``seen_only``), else None: the number
            of distinct values seen is private.
        spurious_bound: most spurious tuples to be expected.
        cells: S_k, for each column set its values as mixed-radix cells over ``cardinalities``.
        counts: H_k in the same order, noisy, int64.
        cardinalities: radix of every column.
    """

    k: int
    limit: int
    variance: Fraction
    threshold: int
    candidates: int | None
    spurious_bound: float
    cells: Cells
    counts: Mapping[Columns, Integers]
    cardinalities: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Release:
    """What leaves the aggregator.

    Attributes:
        values: for each column the codes of its extracted values, ascending; cells of every level
            are mixed-radix numbers over positions in these.
        levels: k = 1..T; shorter where a level extracted nothing.
    """

    values: tuple[Integers, ...]
    levels: tuple[Level, ...]


def release(
    records: Records, allocation: Allocation, settings: Settings, randomness: Randomness
) -> Release:
    """Algorithm 1. Costs at most ``allocation.cost``, whatever it returns or raises.

    Args:
        records: raw; one per user.
        allocation: levels T and how the budget is spread.
        settings: Q, eta, and Remark 1.1's alternative.
        randomness: the operating system's CSPRNG but in tests.

    Returns:
        Noisy counts; all of it may be published.

    Raises:
        InvalidInput: more candidates than can be counted; the budget counts as spent all the same.

    Cost: O(n · column sets) per level, O(candidates) noise.
    """
    extraction = _Extraction(allocation, settings, randomness)
    first = extraction.level(records, _single(records), 1, 0)
    values = tuple(
        first.cells.get((i,), np.empty(0, np.int64)) for i in range(len(records.cardinalities))
    )
    own = records.restrict(first.cells)
    levels = [_renumbered(first, own.cardinalities)]
    for k in range(2, allocation.levels + 1):
        universe = candidates(levels[-1].cells, k, own.cardinalities)
        if not universe:
            break
        levels.append(extraction.level(own, universe, k, size(levels[-1].cells)))
    return Release(values, tuple(levels))


def _single(records: Records) -> Cells:
    """Every value of every column; those that nobody holds are dropped before noise is added."""
    return {(i,): np.arange(r) for i, r in enumerate(records.cardinalities) if r}


def _renumbered(level: Level, cardinalities: tuple[int, ...]) -> Level:
    """The first level in the numbering of the later ones."""
    cells = {key: np.arange(len(own)) for key, own in level.cells.items()}
    return replace(level, cells=cells, cardinalities=cardinalities)


@dataclass(frozen=True, slots=True)
class _Extraction:
    """One level's steps, with what all levels share."""

    allocation: Allocation
    settings: Settings
    randomness: Randomness

    def level(self, records: Records, universe: Cells, k: int, previous: int) -> Level:
        """S_k and H_k; ``previous`` is |S_{k-1}|."""
        locator = Locator(records, universe)
        held = locator.sizes()
        limit = self._limit(held, comb(len(records.cardinalities), k))
        counts = locator.count(held, limit, self.randomness)
        variance = round_variance(self.allocation.variance * limit)
        unseen = k == 1 or self.settings.seen_only
        if unseen:
            universe, counts = _seen(universe, counts)
            threshold, bound = unseen_threshold(variance, limit, self._delta), 0.0
        else:
            threshold, bound = universe_threshold(
                variance, previous, size(universe), self.settings.spurious
            )
        cells, noisy = noisy_threshold(universe, counts, variance, threshold, self.randomness)
        return Level(
            k,
            limit,
            variance,
            threshold,
            None if unseen else size(universe),
            bound,
            cells,
            noisy,
            records.cardinalities,
        )

    def _limit(self, held: Integers, most: int) -> int:
        """Delta_k: a private quantile of how many tuples a record holds, at least 1."""
        epsilon = self.allocation.quantile_epsilon
        found = private_quantile(held, most, self.settings.quantile, epsilon, self.randomness)
        return max(1, found)

    @property
    def _delta(self) -> Fraction:
        """Of one level's threshold: all of it for the first level, or evenly with Remark 1.1."""
        return self.allocation.delta / (self.allocation.levels if self.settings.seen_only else 1)


def _seen(universe: Cells, counts: Cells) -> tuple[Cells, dict[Columns, Integers]]:
    """Only tuples that some record contributed: W_1 ∪ … ∪ W_N."""
    kept = {key: np.flatnonzero(own) for key, own in counts.items()}
    return (
        {key: universe[key][rows] for key, rows in kept.items()},
        {key: counts[key][rows] for key, rows in kept.items()},
    )


def unseen_threshold(variance: Fraction, limit: int, delta: Fraction) -> int:
    """rho_1 = 1 + sd · Phi^-1((1 - delta)^(1 / limit)), rounded up; ``delta`` is the whole share.

    The tail 1 - (1 - delta)^(1/limit) is what Phi^-1 is taken of, for its digits' sake.
    """
    tail = -expm1(log1p(-float(delta)) / limit)
    return _rounded_up(1.0 + sqrt(float(variance)) * -_NORMAL.inv_cdf(tail))


def universe_threshold(
    variance: Fraction, previous: int, offered: int, spurious: Fraction
) -> tuple[int, float]:
    """rho_k = sd · Phi^-1(1 - eta min(1, |S_{k-1}| / |V_k|)), rounded up, and the bound it gives.

    Returns:
        The threshold, and the expected number of spurious tuples at most (Proposition 1.1).
    """
    deviation = sqrt(float(variance))
    tail = float(spurious) * min(1.0, previous / offered)
    threshold = _rounded_up(deviation * -_NORMAL.inv_cdf(tail))
    return threshold, offered * _NORMAL.cdf(-threshold / deviation)


def _rounded_up(value: float) -> int:
    # A hair more than the value, so that the rounding of Phi^-1 cannot take a unit away.
    return ceil(value + 1e-9 * max(1.0, abs(value)))


def noisy_threshold(
    universe: Cells,
    counts: Mapping[Columns, Integers],
    variance: Fraction,
    threshold: int,
    randomness: Randomness,
) -> tuple[Cells, dict[Columns, Integers]]:
    """Algorithm 2 after the counting: noise on every candidate, those above the threshold stay."""
    noise = discrete_gaussian(variance, size(universe), randomness)
    cells, noisy, start = {}, {}, 0
    for key, own in universe.items():
        total = counts[key] + noise[start : start + len(own)]
        start += len(own)
        kept = total > threshold
        if kept.any():
            cells[key], noisy[key] = own[kept], total[kept]
    return cells, noisy
