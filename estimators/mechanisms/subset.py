"""Subset selection (Ye and Barg, 2018; Wang et al., 2016): report w of the L cells."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from estimators.mechanisms.base import Column, ReportWork, require_enumerable
from estimators.mechanisms.bits import count_bits
from estimators.mechanisms.covariance import balanced_noise
from estimators.mechanisms.support import OTHER, SupportOracle, require_integer, table_error
from estimators.randomness import exp_weight, uniform_below, uniform_bytes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from estimators.mechanisms.base import Channel, Counts, Covariance, Floats, Reports
    from estimators.randomness import Randomness

MAX_SUBSET_CELLS = 1 << 14
"""Beyond this a report of L bits costs more than the variance it saves."""

BLOCK_CELLS = 1 << 20
"""Entries of the working matrix of one block of reports: it stays in a core's cache."""


@dataclass(frozen=True)
class SubsetSelection(SupportOracle):
    """A random set of w cells; a set with the own cell weighs e^epsilon as much as one without.

    Report: column ``b``, the set as L packed bits. Counters: sets per cell.

    Attributes:
        size: number w of cells in a set, 1 to L - 1.

    Cost: L / 8 bytes to send, 4 w + 8 random bytes and O(w) to perturb, O(L / 64) to tally.
    """

    name: ClassVar[str] = "subset-selection"
    fixed_total: ClassVar[bool] = True
    max_cells: ClassVar[int] = MAX_SUBSET_CELLS

    size: int

    def __post_init__(self) -> None:
        super().__post_init__()
        require_integer("subset-selection.size", self.size, 1, self.cells - 1)

    @classmethod
    def standard(cls, epsilon: str, cells: int) -> Self:
        """Return the size with the least error of the whole table, exactly.

        The error falls and then rises with w, so the search walks from L / (e + 1) to the valley.
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

    def parameters(self) -> dict[str, Any]:
        """Return the size of a set."""
        return {"size": self.size}

    @property
    def columns(self) -> tuple[Column, ...]:
        """The set."""
        return (Column("b", "bits", self.cells),)

    @property
    def p(self) -> Fraction:
        """Probability that the set holds the own cell."""
        own = self.size * self.weight
        return Fraction(own, own + (self.cells - self.size) * OTHER)

    @property
    def q(self) -> Fraction:
        """Probability that the set holds another given cell."""
        return (self.size - self.p) / (self.cells - 1)

    @property
    def _surplus(self) -> tuple[int, int]:
        """Weights of "the own cell and w - 1 others" and of "any w cells".

        A set with the own cell weighs W, one without 2^32. That is 2^32 for every set and W - 2^32
        more for the share w / L of them that hold the own cell.
        """
        return (self.weight - OTHER) * self.size, OTHER * self.cells

    @property
    def report_work(self) -> ReportWork:
        """One draw for the branch, and one for every cell of the set."""
        # No draw takes more than one from a bound that is no power of two.
        draws = uniform_bytes(sum(self._surplus), 1) + uniform_bytes(self.cells | 1, self.size)
        return ReportWork.of(self.columns, draws)

    def perturb(self, values: NDArray[Any], randomness: Randomness) -> dict[str, NDArray[Any]]:
        """See :meth:`Mechanism.perturb`; column ``b`` has shape (n, ceil(L / 8))."""
        values = np.asarray(values).astype(np.int64)
        step = max(1, BLOCK_CELLS // self.cells)
        blocks = [
            self._draw(values[start : start + step], randomness)
            for start in range(0, max(len(values), 1), step)
        ]
        return {"b": np.concatenate(blocks)}

    def _draw(self, values: NDArray[np.int64], randomness: Randomness) -> NDArray[np.uint8]:
        """Floyd's sampling without replacement on positions relative to the own cell.

        Position i stands for cell (own + 1 + i) mod L, so the own cell is the last position. Before
        the last step the set is a uniform choice of w - 1 others. The last step adds the own cell,
        or in the other branch completes a uniform choice from all cells.
        """
        n, cells = len(values), self.cells
        held = np.zeros(n * cells, np.uint8)
        row = np.arange(0, n * cells, cells)
        shift = values + 1
        certain, anything = self._surplus
        keep = uniform_below(certain + anything, n, randomness) < certain
        for last in range(cells - self.size, cells):
            drawn = row + _wrap(uniform_below(last + 1, n, randomness) + shift, cells)
            taken = held[drawn] != 0
            if last == cells - 1:
                taken |= keep
            np.copyto(drawn, row + _wrap(last + shift, cells), where=taken)
            held[drawn] = 1
        return np.packbits(held.reshape(n, cells), axis=1, bitorder="little")

    def tally(self, reports: Reports, view: NDArray[Any] | None, views: int) -> Counts:
        """Count sets per view and cell."""
        return count_bits(reports["b"], self.cells, view, views)

    def covariance(self, n: int, frequencies: Floats) -> Covariance:
        """Every report supports equally many cells, so the noise adds up to 0.

        Single entries are exact if all frequencies are equal.
        """
        return balanced_noise(self.variance(n, frequencies), n, frequencies)

    def influence(self, weights: Floats, times: Floats) -> float:
        """Exact: the set of the w cells of largest weight. See :meth:`Mechanism.influence`."""
        other, gap = self._rates
        order = np.argsort(-weights)
        taken = np.diff(np.minimum(np.cumsum(times[order]), self.size), prepend=0.0)
        return float(weights[order] @ taken - other * (times @ weights)) / gap

    def draw_tally(self, histogram: Counts, generator: np.random.Generator) -> Counts:
        """Draw exactly in O(L w), see :func:`_draw_sets`."""
        certain, anything = self._surplus
        own = generator.binomial(histogram, certain / (certain + anything))
        return _draw_sets(own, int(histogram.sum() - own.sum()), self.size, generator)

    def channel(self) -> Channel:
        """Outputs are the sets in increasing order of the integer that their bits spell."""
        sets = math.comb(self.cells, self.size)
        require_enumerable(sets)
        held = self.p / math.comb(self.cells - 1, self.size - 1)
        missed = (1 - self.p) / math.comb(self.cells - 1, self.size)
        spelled = sorted(
            sum(1 << c for c in chosen) for chosen in combinations(range(self.cells), self.size)
        )
        return tuple(
            tuple(held if y >> x & 1 else missed for y in spelled) for x in range(self.cells)
        )

    def worst_ratio(self) -> Fraction:
        """Compare a set with the own cell and one without it."""
        return Fraction(self.weight, OTHER)


def _wrap(position: NDArray[np.int64], cells: int) -> NDArray[np.int64]:
    """Reduce positions in [0, 2 · cells) modulo cells, in place."""
    position -= cells * (position >= cells)
    return position


def _advance(group: Counts, odds: NDArray[np.float64], generator: np.random.Generator) -> int:
    """Let reports with r cells to choose take one more, in place; return how many did."""
    held = generator.binomial(group, odds)
    group -= held
    group[:-1] += held[1:]
    return int(held.sum())


def _draw_sets(own: Counts, free: int, size: int, generator: np.random.Generator) -> Counts:
    """Count sets per cell, cell by cell, without drawing the sets.

    Reports are counted by how many cells they still have to choose. At cell j a report that has r
    to choose from the k cells it can still choose holds j with probability r / k, independently of
    the others: this is a uniform set drawn sequentially. A report that holds its own cell for
    certain can choose all but that; which of the reports whose own cell lies ahead reach it now is
    a uniform choice, because their progress does not depend on it.

    Args:
        own: shape (L,), reports per own cell that hold it and ``size`` - 1 uniform others.
        free: reports that hold ``size`` uniform cells.
        size: cells per set.
        generator: seeded by the caller.

    Returns:
        Shape (L,), int64.
    """
    cells = len(own)
    left = np.arange(size + 1)
    ahead = np.zeros(size + 1, np.int64)
    ahead[size - 1] = own.sum()
    past = np.zeros(size + 1, np.int64)
    past[size] = free
    out = own.astype(np.int64)
    for j in range(cells):
        arrived = generator.multivariate_hypergeometric(ahead, int(own[j]), method="marginals")
        ahead -= arrived
        for group, choices in ((ahead, max(cells - 1 - j, 1)), (past, cells - j)):
            out[j] += _advance(group, np.minimum(left / choices, 1), generator)
        past += arrived
    return out
