"""Subset selection (Ye and Barg, 2018; Wang et al., 2016): a device reports w of the L cells."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from calmstream.estimators.arrays import Counts, Floats
from calmstream.estimators.mechanisms.base import Channel, Column, Covariance, Reports, ReportWork
from calmstream.estimators.mechanisms.bits import count_bits
from calmstream.estimators.mechanisms.covariance import one_set_covariance
from calmstream.estimators.mechanisms.support import (
    OTHER,
    SupportOracle,
    require_integer,
    table_error,
    weighted_channel,
)
from calmstream.estimators.randomness import Randomness, exp_weight, uniform_below, uniform_bytes

MAX_SUBSET_CELLS = 1 << 14  # with more, L bits cost more than the smaller variance is worth
BLOCK_CELLS = 1 << 20  # entries of the matrix of one block of reports, for a core's cache
WORD_BITS = 64  # up to so many cells, a set is one word


@dataclass(frozen=True)
class SubsetSelection(SupportOracle):
    """A report is a random set of w cells; sets with the device's own cell are more likely.

    A set with the own cell has the weight floor(e^epsilon · 2^32), any other set 2^32.
    Report: column ``b``, the set as L packed bits. Counters: the number of sets with each cell.
    Cost: L / 8 bytes to send, 4 w + 8 random bytes and O(w) to perturb, O(L / 64) to tally.
    """

    name: ClassVar[str] = "subset-selection"
    fixed_total: ClassVar[bool] = True
    max_cells: ClassVar[int] = MAX_SUBSET_CELLS

    size: int  # w, 1 to L - 1

    def __post_init__(self) -> None:
        super().__post_init__()
        require_integer("subset-selection.size", self.size, 1, self.cells - 1)

    @classmethod
    def standard(cls, epsilon: str, cells: int) -> Self:
        """Return the mechanism with the size w that minimises the exact error of the table.

        The error first falls and then rises with w, so the search starts at L / (e + 1).
        """
        require_integer("subset-selection.cells", cells, 2, cls.max_cells)
        start = round(Fraction(cells * OTHER, exp_weight(epsilon) + OTHER))
        best = cls(epsilon, cells, min(max(start, 1), cells - 1))
        for step in (1, -1):
            while 1 <= best.size + step < cells:
                other = cls(epsilon, cells, best.size + step)
                if table_error(other) >= table_error(best):
                    break
                best = other
        return best

    @property
    def columns(self) -> tuple[Column, ...]:
        return (Column("b", "bits", self.cells),)

    @property
    def p(self) -> Fraction:
        own = self.size * self.weight
        return Fraction(own, own + (self.cells - self.size) * OTHER)

    @property
    def q(self) -> Fraction:
        return (self.size - self.p) / (self.cells - 1)

    @property
    def _surplus(self) -> tuple[int, int]:
        """Weights of the two ways to draw: "the own cell and w - 1 others" and "any w cells".

        Every set has 2^32, and those with the own cell, w / L of all, have W - 2^32 more.
        """
        return (self.weight - OTHER) * self.size, OTHER * self.cells

    @property
    def report_work(self) -> ReportWork:
        # A bound that is not a power of two needs the most bytes, so an odd one is assumed.
        draws = uniform_bytes(sum(self._surplus), 1) + uniform_bytes(self.cells | 1, self.size)
        return ReportWork.of(self.columns, draws)

    def perturb(self, values: NDArray[Any], randomness: Randomness) -> dict[str, NDArray[Any]]:
        values = np.asarray(values).astype(np.int64)
        step = max(1, BLOCK_CELLS // self.cells)
        draw = self._draw_words if self.cells <= WORD_BITS else self._draw
        blocks = [
            draw(values[start : start + step], randomness)
            for start in range(0, max(len(values), 1), step)
        ]
        return {"b": np.concatenate(blocks)}

    def _draw(self, values: NDArray[np.int64], randomness: Randomness) -> NDArray[np.uint8]:
        """Draw a set for every value, by Floyd's sampling without replacement.

        Position i is cell (own + 1 + i) mod L, so the own cell is the last. Before the last step,
        the set is a uniform choice of w - 1 other cells. The last step adds the own cell, or
        completes a uniform choice of w from all cells, depending on the way that was drawn.
        """
        n, cells = len(values), self.cells
        chosen = np.zeros(n * cells, np.uint8)
        row = np.arange(0, n * cells, cells)
        shift = values + 1
        certain, anything = self._surplus
        with_own = uniform_below(certain + anything, n, randomness) < certain
        for last in range(cells - self.size, cells):
            drawn = row + _wrap(uniform_below(last + 1, n, randomness) + shift, cells)
            taken = chosen[drawn] != 0
            if last == cells - 1:
                taken |= with_own
            # Arithmetic, because an assignment under a random mask mispredicts branches.
            drawn += taken * (row + _wrap(last + shift, cells) - drawn)
            chosen[drawn] = 1
        return np.packbits(chosen.reshape(n, cells), axis=1, bitorder="little")

    def _draw_words(self, values: NDArray[np.int64], randomness: Randomness) -> NDArray[np.uint8]:
        """Draw what :meth:`_draw` draws, for at most 64 cells: a set is the bits of one word."""
        n, cells, one = len(values), np.uint64(self.cells), np.uint64(1)
        chosen = np.zeros(n, np.uint64)
        certain, anything = self._surplus
        with_own = uniform_below(certain + anything, n, randomness) < certain
        # All steps are arithmetic, as in `_draw`.
        for last in range(self.cells - self.size, self.cells):
            place = uniform_below(last + 1, n, randomness).view(np.uint64)
            taken = chosen >> place
            taken &= one
            drawn = np.left_shift(one, place, out=place)
            if last == self.cells - 1:
                taken |= with_own
                drawn *= ~with_own
            chosen |= drawn  # Where it is taken, this changes nothing.
            taken <<= np.uint64(last)
            chosen |= taken
        # Bit i is cell (own + 1 + i) mod L: rotate the words of L bits.
        shift = values.astype(np.uint64) + one
        shift *= shift != cells
        rotated = chosen << shift
        # The second shift is by two steps, because a shift by 64 bits is not defined.
        chosen >>= cells - one - shift
        chosen >>= one
        rotated |= chosen
        rotated &= np.uint64((1 << self.cells) - 1)
        rows = rotated.astype("<u8").view(np.uint8).reshape(n, WORD_BITS // 8)
        return rows[:, : -(-self.cells // 8)]

    def tally(self, reports: Reports, view: NDArray[Any] | None, views: int) -> Counts:
        return count_bits(reports["b"], self.cells, view, views)

    @cached_property
    def _pairs(self) -> tuple[float, float]:
        """Probability that a set contains the own and one other cell, and two given other cells."""
        w, others, p = self.size, self.cells - 1, self.p
        own = p * (w - 1) / others
        if others < 2:
            return float(own), 0.0
        both = (p * (w - 1) * (w - 2) + (1 - p) * w * (w - 1)) / (others * (others - 1))
        return float(own), float(both)

    def covariance(self, n: int, frequencies: Floats) -> Covariance:
        return one_set_covariance(self._rates, self._pairs, n, np.asarray(frequencies))

    def draw_tally(self, histogram: Counts, generator: np.random.Generator) -> Counts:
        """Draw from the exact distribution in O(L w); see `draw_sets`."""
        certain, anything = self._surplus
        own = generator.binomial(histogram, certain / (certain + anything))
        return draw_sets(own, int(histogram.sum() - own.sum()), self.size, generator)

    def channel(self) -> Channel:
        sets = combinations(range(self.cells), self.size)
        ascending = sorted(sets, key=lambda chosen: sum(1 << c for c in chosen))
        supported = [np.isin(np.arange(self.cells), chosen) for chosen in ascending]
        return weighted_channel(np.array(supported), self.weight)


def _wrap(position: NDArray[np.int64], cells: int) -> NDArray[np.int64]:
    """Reduce positions in [0, 2 · cells) modulo cells, in place."""
    position -= cells * (position >= cells)
    return position


def _advance(
    group: Counts, probabilities: NDArray[np.float64], generator: np.random.Generator
) -> int:
    """Draw which reports contain the current cell, and return how many do."""
    containing = generator.binomial(group, probabilities)
    group -= containing
    group[:-1] += containing[1:]
    return int(containing.sum())


def draw_sets(own: Counts, free: int, size: int, generator: np.random.Generator) -> Counts:
    """Draw the number of sets with each cell, (L,), cell by cell, without drawing the sets.

    A report that still has to choose r of the k remaining cells contains the current cell with
    probability r / k, so it suffices to count reports by r. Those that certainly contain their own
    cell (``own``: how many, for each cell) choose the others from all cells except that one: they
    start in ``before`` and move to ``after`` at their own cell. Which of them have the current cell
    as their own is a uniform choice, because r does not depend on it. All others (``free``) are in
    ``after`` from the start.
    """
    cells = len(own)
    to_choose = np.arange(size + 1)
    before = np.zeros(size + 1, np.int64)
    before[size - 1] = own.sum()
    after = np.zeros(size + 1, np.int64)
    after[size] = free
    out = own.astype(np.int64)
    for j in range(cells):
        arrived = generator.multivariate_hypergeometric(before, int(own[j]), method="marginals")
        before -= arrived
        for group, remaining in ((before, max(cells - 1 - j, 1)), (after, cells - j)):
            out[j] += _advance(group, np.minimum(to_choose / remaining, 1), generator)
        after += arrived
    return out
