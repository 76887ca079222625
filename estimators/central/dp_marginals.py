"""DP Marginals (Gopi, Mahabadi and Yekhanin), Algorithms 1 and 2: noisy counts of k-tuples.

Neighbouring data sets differ by one record, added or removed. When the budget is spent, no record
can cause an error: all that has a limit (candidates, column sets, contribution limits) is reduced
by public values, and :func:`.accounting.allocate` refuses before, from the plan alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from calmstream.estimators.central.accounting import Spend
from calmstream.estimators.central.candidates import MAX_CANDIDATES, Universe, grow
from calmstream.estimators.central.discrete_gaussian import Integers
from calmstream.estimators.central.noise import (
    LARGEST,
    CountNoise,
    universe_threshold,
    unseen_threshold,
)
from calmstream.estimators.central.quantile import private_quantile
from calmstream.estimators.central.tuples import Cells, Columns, Records, size
from calmstream.estimators.numerics.subsets import elementary
from calmstream.estimators.randomness import Randomness

_NOISE_BLOCK = 1 << 16  # counts that get noise at once, for which `working_bytes` has room


@dataclass(frozen=True, slots=True, eq=False)
class Level:
    """The released tuples of one size (S_k) and their noisy counts (H_k)."""

    k: int
    limit: int
    variance: Fraction  # of the noise of each count, sigma_k^2 Delta_k and a little more
    threshold: int  # a tuple is released if its noisy count is above this
    candidates: int | None  # |V_k| if it is public (k >= 2 and not ``seen_only``)
    spurious_bound: float
    extended_above: int | None  # see `Universe.above`
    cells: Cells  # S_k: for each column set its tuples, mixed-radix numbers of places in the values
    counts: Mapping[Columns, Integers]  # H_k: noisy counts in the same order, int64


@dataclass(frozen=True, slots=True, eq=False)
class Release:
    """By column the codes released; levels k = 1..T, fewer if one released no tuple."""

    values: tuple[Integers, ...]
    levels: tuple[Level, ...]


@dataclass(frozen=True, slots=True)
class DpMarginals:
    """The method with its parameters."""

    spend: Spend  # of one release at most
    quantile: Fraction = Fraction(99, 100)  # Q, the share of users whose tuples should all count
    # eta, the maximum expected number of tuples that no record has, per tuple of the level before
    spurious: Fraction = Fraction(1, 100)
    seen_only: bool = False  # only tuples of records are candidates: higher thresholds (Remark 1.1)

    def release(self, records: Records, randomness: Randomness) -> Release:
        """Compute one release by Algorithm 1.

        Cost: O(n · column sets) per level, O(candidates) noise; memory as :func:`working_bytes`
        says.
        """
        single: Cells = {(i,): np.arange(r) for i, r in enumerate(records.cardinalities) if r}
        first = self._level(records, Universe(single, 0, None), 1, randomness)
        empty = np.empty(0, np.int64)
        values = tuple(first.cells.get((i,), empty) for i in range(len(records.cardinalities)))
        own = records.restrict(first.cells)
        # The later levels' numbering: places in the values.
        levels = [replace(first, cells={k: np.arange(len(v)) for k, v in first.cells.items()})]
        for k in range(2, self.spend.levels + 1):
            universe = grow(levels[-1].cells, levels[-1].counts, own.cardinalities)
            if not universe.cells:
                break
            levels.append(self._level(own, universe, k, randomness))
        return Release(values, tuple(levels))

    def _level(self, records: Records, offered: Universe, k: int, randomness: Randomness) -> Level:
        """Return S_k and H_k, the released tuples and their noisy counts."""
        held = records.sizes(offered.cells)
        # The range of Delta_k must be public. Which columns have any value is private, so at level
        # 1 all count; later column sets follow from earlier releases.
        column_sets = len(records.cardinalities) if k == 1 else len(offered.cells)
        largest = min(column_sets, int(LARGEST / self.spend.variance))
        epsilon = self.spend.quantile_epsilon
        limit = max(1, private_quantile(held, largest, self.quantile, epsilon, randomness))
        noise = CountNoise(self.spend.variance * limit)
        unseen = k == 1 or self.seen_only
        threshold, bound = self._threshold(offered, noise.published, limit, unseen=unseen)
        cells, noisy = {}, {}
        for key, counts in records.count(offered.cells, held, limit, randomness):
            # With ``unseen`` only the tuples that some record has are candidates.
            rows = np.flatnonzero(counts) if unseen else slice(None)
            own = _noisy(offered.cells[key][rows], counts[rows], noise, threshold, randomness)
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
        )

    def _threshold(
        self, offered: Universe, variance: Fraction, limit: int, *, unseen: bool
    ) -> tuple[int, float]:
        """Return the threshold, and the maximum expected number of spurious tuples."""
        if unseen:
            # All of delta is the first level's, or evenly each level's if ``seen_only``.
            parts = self.spend.levels if self.seen_only else 1
            return unseen_threshold(variance, limit, self.spend.delta / parts), 0.0
        return universe_threshold(variance, offered.parents, size(offered.cells), self.spurious)


def _noisy(
    cells: Integers, counts: Integers, noise: CountNoise, threshold: int, randomness: Randomness
) -> tuple[Integers, Integers]:
    """Return what is above the threshold with noise: cells and counts (the end of Algorithm 2)."""
    kept = [(cells[:0], counts[:0])]
    for start in range(0, len(cells), _NOISE_BLOCK):
        block = slice(start, start + _NOISE_BLOCK)
        noisy = counts[block] + noise.draw(len(counts[block]), randomness)
        above = noisy > threshold
        kept.append((cells[block][above], noisy[above]))
    found, noisy = (np.concatenate(part) for part in zip(*kept, strict=True))
    return found, noisy


def working_bytes(records: Records, levels: int) -> int:
    """Return an upper bound of the bytes that a release needs in addition to the records."""
    n, d = len(records.codes), len(records.cardinalities)
    tuples = elementary(records.cardinalities, levels)
    largest = max(tuples[1], min(max(tuples[1:]), MAX_CANDIDATES))
    return 4 * n * d + 128 * n + 24 * largest + (64 << 20)
