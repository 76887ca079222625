"""DP Marginals (Gopi, Mahabadi and Yekhanin), Algorithms 1 and 2: noisy counts of k-tuples.

Neighbouring data sets differ by one record, added or removed. When the budget is spent, no record
can cause an error: all that has a limit (candidates, column sets, contribution limits) is reduced
by public values, and :func:`check_allocation` refuses before, from the plan alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from calmstream.common.errors import PlanError
from calmstream.estimators.central.accounting import Allocation
from calmstream.estimators.central.candidates import MAX_CANDIDATES, Alive, Universe, grow
from calmstream.estimators.central.discrete_gaussian import Integers
from calmstream.estimators.central.noise import (
    LARGEST,
    CountNoise,
    universe_threshold,
    unseen_threshold,
)
from calmstream.estimators.central.quantile import private_quantile
from calmstream.estimators.central.tuples import (
    Cells,
    Columns,
    Locator,
    Records,
    size,
)
from calmstream.estimators.numerics.subsets import elementary
from calmstream.estimators.randomness import Randomness

_NOISE_BLOCK = 1 << 16  # counts that get noise at once, so that `alive` is called often


@dataclass(frozen=True, slots=True)
class ReleaseSettings:
    """The parameters that the paper leaves to the user.

    Attributes:
        quantile: Q, the share of users whose tuples should all count; above 0, at most 1.
        spurious: eta, the maximum expected number of tuples that no record has, per tuple of the
            previous level; above 0 and below 1.
        seen_only: only tuples that some record has are candidates, with higher thresholds
            (Remark 1.1).
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
    """The released tuples of one size (S_k) and their noisy counts (H_k).

    Attributes:
        variance: of the noise of each count, sigma_k^2 Delta_k and a little more.
        threshold: a tuple is released if its noisy count is above this.
        candidates: |V_k| if it is public (k >= 2 and not ``seen_only``), else None.
        extended_above: see `Universe.above`.
        cells: S_k: for each column set its tuples, as mixed-radix numbers over ``cardinalities``.
        counts: H_k: noisy counts in the same order, int64.
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
    """Levels k = 1..T, fewer if one released no tuple; and by column the codes released.

    The cells of every level are mixed-radix numbers of positions in ``values``.
    """

    values: tuple[Integers, ...]
    levels: tuple[Level, ...]


def check_allocation(allocation: Allocation) -> int:
    """Return the largest contribution limit whose noise can be drawn, before anything is paid."""
    limit = int(LARGEST / allocation.variance)
    if limit < 1:
        raise PlanError(
            f"counts of one release would need noise of variance {float(allocation.variance):.3g}; "
            f"at most {LARGEST:,} is possible: plan fewer releases or a larger epsilon"
        )
    return limit


def working_bytes(records: Records, levels: int) -> int:
    """Return an upper bound of the bytes that :func:`release` needs in addition to the records."""
    n, d = len(records.codes), len(records.cardinalities)
    tuples = elementary(records.cardinalities, levels)
    largest = max(tuples[1], min(max(tuples[1:]), MAX_CANDIDATES))
    return 4 * n * d + 128 * n + 24 * largest + (64 << 20)


def release(
    records: Records,
    allocation: Allocation,
    settings: ReleaseSettings,
    randomness: Randomness,
    alive: Alive = lambda: None,
) -> Release:
    """Compute one release by Algorithm 1; it costs at most ``allocation.cost``.

    ``alive`` is called every few seconds or more often. Cost: O(n · column sets) per level,
    O(candidates) noise; memory as :func:`working_bytes` says.
    """
    extraction = _Extraction(allocation, settings, randomness, check_allocation(allocation), alive)
    single: Cells = {(i,): np.arange(r) for i, r in enumerate(records.cardinalities) if r}
    first = extraction.level(records, Universe(single, 0, None), 1)
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


def _renumbered(level: Level, cardinalities: tuple[int, ...]) -> Level:
    """Return the first level in the numbering of the later ones."""
    cells = {key: np.arange(len(own)) for key, own in level.cells.items()}
    return replace(level, cells=cells, cardinalities=cardinalities)


@dataclass(frozen=True, slots=True)
class _Extraction:
    """The steps of one level, with the parameters that all levels share."""

    allocation: Allocation
    settings: ReleaseSettings
    randomness: Randomness
    largest_limit: int
    alive: Alive

    def level(self, records: Records, offered: Universe, k: int) -> Level:
        """Return S_k and H_k, the released tuples and their noisy counts."""
        locator = Locator(records, offered.cells, self.alive)
        held = locator.sizes()
        # Which columns have any value is private, so at level 1 all columns count. Later levels
        # have column sets that follow from earlier releases, which are public.
        limit = self._limit(held, len(records.cardinalities) if k == 1 else len(offered.cells))
        noise = CountNoise(self.allocation.variance * limit)
        unseen = k == 1 or self.settings.seen_only
        threshold, bound = self._threshold(offered, noise.published, limit, unseen=unseen)
        cells, noisy = {}, {}
        for key, counts in locator.count(held, limit, self.randomness):
            # With ``unseen`` only the tuples that some record has are candidates.
            rows = np.flatnonzero(counts) if unseen else slice(None)
            own = noisy_threshold(
                offered.cells[key][rows],
                counts[rows],
                noise,
                threshold,
                self.randomness,
                self.alive,
            )
            if len(own[0]):
                cells[key], noisy[key] = own
        return Level(
            k,
            limit,
            noise.published,
            threshold,
            None if unseen else size(offered.cells),
            bound,
            offered.above,
            cells,
            noisy,
            records.cardinalities,
        )

    def _limit(self, held: Integers, column_sets: int) -> int:
        """Return Delta_k, a private quantile of the candidates that each record has, at least 1.

        The number of column sets must be public; a record has at most one tuple of each.
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
        """Return the threshold, and the maximum expected number of spurious tuples."""
        if unseen:
            # All of delta is the first level's, or evenly each level's if ``seen_only``.
            parts = self.allocation.levels if self.settings.seen_only else 1
            return unseen_threshold(variance, limit, self.allocation.delta / parts), 0.0
        spurious = self.settings.spurious
        return universe_threshold(variance, offered.parents, size(offered.cells), spurious)


def noisy_threshold(
    cells: Integers,
    counts: Integers,
    noise: CountNoise,
    threshold: int,
    randomness: Randomness,
    alive: Alive = lambda: None,
) -> tuple[Integers, Integers]:
    """Add noise to the count of every candidate of one column set (the end of Algorithm 2)."""
    kept = [(cells[:0], counts[:0])]
    for start in range(0, len(cells), _NOISE_BLOCK):
        alive()
        block = slice(start, start + _NOISE_BLOCK)
        noisy = counts[block] + noise.draw(len(counts[block]), randomness)
        above = noisy > threshold
        kept.append((cells[block][above], noisy[above]))
    found, noisy = (np.concatenate(part) for part in zip(*kept, strict=True))
    return found, noisy
