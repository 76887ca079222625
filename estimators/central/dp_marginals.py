"""DP Marginals (Gopi, Mahabadi and Yekhanin): noisy counts of k-tuples, k = 1..T.

Algorithms 1 and 2 of the paper with the corrected accounting of :mod:`.accounting`, exact integer
noise and the thresholds of :mod:`.thresholds`. Neighbours differ by one record, added or removed.

Once the budget is paid nothing here raises because of the records: everything that has a limit
(candidates, column sets, contribution limits) is made to fit by what is public already. What can be
refused is refused beforehand, from the plan alone, by :func:`check_allocation`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from estimators.central.candidates import MAX_CANDIDATES, Universe, grow
from estimators.central.discrete_gaussian import (
    MAX_VARIANCE,
    discrete_gaussian,
    round_variance,
)
from estimators.central.quantile import private_quantile
from estimators.central.thresholds import universe_threshold, unseen_threshold
from estimators.central.tuples import (
    Cells,
    Columns,
    Integers,
    Locator,
    Records,
    size,
)
from estimators.errors import PlanError
from estimators.numerics.subsets import elementary

if TYPE_CHECKING:
    from estimators.central.accounting import Allocation
    from estimators.randomness import Randomness

_NOISE_BLOCK = 1 << 16
"""Counts that are given noise at once."""

Alive = Callable[[], None]


@dataclass(frozen=True, slots=True)
class Settings:
    """The parameters that the paper leaves to the user.

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
        extended_above: candidates extend only tuples of the level before with noisy counts above
            this, as there were too many; None where they extend all of them.
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
    extended_above: int | None
    cells: Cells
    counts: Mapping[Columns, Integers]
    cardinalities: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Release:
    """The result of one release.

    Attributes:
        values: for each column the codes of its extracted values, ascending; cells of every level
            are mixed-radix numbers over positions in these.
        levels: k = 1..T; shorter where a level extracted nothing.
    """

    values: tuple[Integers, ...]
    levels: tuple[Level, ...]


def check_allocation(allocation: Allocation) -> int:
    """Return the largest contribution limit whose noise can be drawn; to be called before paying.

    Raises:
        PlanError: not even the noise for a limit of 1 can be.
    """
    limit = int(MAX_VARIANCE / allocation.variance)
    if limit < 1:
        raise PlanError(
            f"counts of one release would need noise of variance {float(allocation.variance):.3g}; "
            f"at most {MAX_VARIANCE:,} is drawn: plan fewer releases or a larger epsilon"
        )
    return limit


def working_bytes(records: Records, levels: int) -> int:
    """Memory that :func:`release` needs beside the records; it rarely needs half of it."""
    n, d = len(records.codes), len(records.cardinalities)
    tuples = elementary(records.cardinalities, levels)
    largest = max(tuples[1], min(max(tuples[1:]), MAX_CANDIDATES))
    return 4 * n * d + 128 * n + 24 * largest + (64 << 20)


def release(
    records: Records,
    allocation: Allocation,
    settings: Settings,
    randomness: Randomness,
    alive: Alive = lambda: None,
) -> Release:
    """Algorithm 1. Costs at most ``allocation.cost``, whatever it returns.

    Args:
        records: raw; one per user.
        allocation: levels T and how the budget is spread.
        settings: Q, eta, and Remark 1.1's alternative.
        randomness: the operating system's CSPRNG but in tests.
        alive: called every few seconds or more often.

    Returns:
        Noisy counts; all of it may be published.

    Raises:
        PlanError: :func:`check_allocation` refuses the allocation.

    Cost: O(n · column sets) per level, O(candidates) noise; memory as :func:`working_bytes` says.
    """
    extraction = _Extraction(allocation, settings, randomness, check_allocation(allocation), alive)
    first = extraction.level(records, Universe(_single(records), 0, None), 1)
    values = tuple(
        first.cells.get((i,), np.empty(0, np.int64)) for i in range(len(records.cardinalities))
    )
    own = records.restrict(first.cells)
    levels = [_renumbered(first, own.cardinalities)]
    for k in range(2, allocation.levels + 1):
        before = levels[-1]
        if not before.cells:
            break
        universe = grow(before.cells, before.counts, k, own.cardinalities, alive)
        if not universe.cells:
            break
        levels.append(extraction.level(own, universe, k))
    return Release(values, tuple(levels))


def _single(records: Records) -> Cells:
    """Count every value of every column; values that no record holds get no noise."""
    return {(i,): np.arange(r) for i, r in enumerate(records.cardinalities) if r}


def _renumbered(level: Level, cardinalities: tuple[int, ...]) -> Level:
    """Return the first level in the numbering of the later ones."""
    cells = {key: np.arange(len(own)) for key, own in level.cells.items()}
    return replace(level, cells=cells, cardinalities=cardinalities)


@dataclass(frozen=True, slots=True)
class _Extraction:
    """One level's steps, with what all levels share."""

    allocation: Allocation
    settings: Settings
    randomness: Randomness
    largest_limit: int
    alive: Alive

    def level(self, records: Records, offered: Universe, k: int) -> Level:
        """S_k and H_k."""
        locator = Locator(records, offered.cells, self.alive)
        held = locator.sizes()
        # Which columns hold values at all is private; which sets of them are on offer later is not.
        limit = self._limit(held, len(records.cardinalities) if k == 1 else len(offered.cells))
        variance = round_variance(self.allocation.variance * limit)
        unseen = k == 1 or self.settings.seen_only
        threshold, bound = self._threshold(offered, variance, limit, unseen=unseen)
        cells, noisy = {}, {}
        for key, counts in locator.count(held, limit, self.randomness):
            # With ``unseen`` only tuples that some record contributed: W_1 ∪ … ∪ W_N.
            rows = np.flatnonzero(counts) if unseen else slice(None)
            own = noisy_threshold(
                offered.cells[key][rows],
                counts[rows],
                variance,
                threshold,
                self.randomness,
                self.alive,
            )
            if len(own[0]):
                cells[key], noisy[key] = own
        return Level(
            k,
            limit,
            variance,
            threshold,
            None if unseen else size(offered.cells),
            bound,
            offered.above,
            cells,
            noisy,
            records.cardinalities,
        )

    def _limit(self, held: Integers, column_sets: int) -> int:
        """Delta_k: a private quantile of how many tuples a record holds, at least 1.

        A record holds at most one tuple of every column set. The number of sets must be public.
        """
        found = private_quantile(
            held,
            min(column_sets, self.largest_limit),
            self.settings.quantile,
            self.allocation.quantile_epsilon,
            self.randomness,
        )
        return max(1, found)

    def _threshold(
        self, offered: Universe, variance: Fraction, limit: int, *, unseen: bool
    ) -> tuple[int, float]:
        if unseen:
            return unseen_threshold(variance, limit, self._delta), 0.0
        spurious = self.settings.spurious
        return universe_threshold(variance, offered.parents, size(offered.cells), spurious)

    @property
    def _delta(self) -> Fraction:
        """Of one level's threshold: all of it for the first level, or evenly with Remark 1.1."""
        return self.allocation.delta / (self.allocation.levels if self.settings.seen_only else 1)


def noisy_threshold(
    cells: Integers,
    counts: Integers,
    variance: Fraction,
    threshold: int,
    randomness: Randomness,
    alive: Alive = lambda: None,
) -> tuple[Integers, Integers]:
    """Algorithm 2 after the counting, for one column set: noise on every candidate's count.

    Returns:
        The cells whose noisy counts are above the threshold, and these counts.
    """
    kept = [(cells[:0], counts[:0])]
    for start in range(0, len(cells), _NOISE_BLOCK):
        alive()
        block = slice(start, start + _NOISE_BLOCK)
        noisy = counts[block] + discrete_gaussian(variance, len(counts[block]), randomness)
        above = noisy > threshold
        kept.append((cells[block][above], noisy[above]))
    found, noisy = (np.concatenate(part) for part in zip(*kept, strict=True))
    return found, noisy
