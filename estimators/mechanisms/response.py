"""Hadamard response with public randomness: one random row, one sign.

Acharya, Sun and Zhang (AISTATS 2019) draw the row on the device's side of a prefix tree; drawing it
uniformly and sending it has the same variance and makes every other cell's support exactly 1/2.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from estimators.mechanisms.base import Column, ReportWork, require_enumerable
from estimators.mechanisms.coefficient import flip
from estimators.mechanisms.covariance import independent_noise
from estimators.mechanisms.support import OTHER, SupportOracle
from estimators.numerics.hadamard import parity, power_of_two, transform
from estimators.randomness import coins_bytes, uniform_below, uniform_bytes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from estimators.mechanisms.base import Channel, Counts, Covariance, Floats, Reports
    from estimators.randomness import Randomness


@dataclass(frozen=True)
class HadamardResponse(SupportOracle):
    """A uniform row a in [0, K), K the power of two from L on, and chi_a(cell) by RR.

    Report: columns ``r``, the row, and ``s``, the sign (0 is +1, 1 is -1). A report supports the
    cells with that sign in that row: half of all K, row 0 included, which makes q exactly 1/2.
    Counters: reports per (row, sign), 2 K of them.
    Cost: 2 to 5 random bytes a report, O(1) to perturb and to tally, O(K log K) to estimate.
    """

    name: ClassVar[str] = "hadamard-response"
    fixed_total: ClassVar[bool] = False

    @property
    def rows(self) -> int:
        """Number K of rows."""
        return power_of_two(self.cells)

    @property
    def width(self) -> int:
        """A counter per row and sign."""
        return 2 * self.rows

    @property
    def columns(self) -> tuple[Column, ...]:
        """The row and the sign."""
        return (Column("r", "int", self.rows), Column("s", "int", 2))

    @property
    def p(self) -> Fraction:
        """Probability of the own cell's sign."""
        return Fraction(self.weight, self.weight + OTHER)

    @property
    def q(self) -> Fraction:
        """Two different cells have equal signs in exactly half of the rows."""
        return Fraction(1, 2)

    def supports(self, counts: Counts, n: int) -> Counts:
        """Reports with the cell's sign: (n + sum over rows of chi · (plus - minus)) / 2."""
        plus, minus = counts.reshape(-1, 2).T
        supports: Counts = (n + transform(plus - minus)[: self.cells]) // 2
        return supports

    @property
    def report_work(self) -> ReportWork:
        """A row and a coin."""
        return ReportWork.of(self.columns, uniform_bytes(self.rows, 1) + coins_bytes(1))

    def perturb(self, values: NDArray[Any], randomness: Randomness) -> dict[str, NDArray[Any]]:
        """See :meth:`Mechanism.perturb`; column ``r`` is int64, ``s`` uint8."""
        values = np.asarray(values).astype(np.int64)
        rows = uniform_below(self.rows, len(values), randomness)
        return {"r": rows, "s": flip(parity(rows & values), 1 - self.p, randomness)}

    def tally(self, reports: Reports, view: NDArray[Any] | None, views: int) -> Counts:
        """Count reports per view and (row, sign)."""
        return count_signs(reports["r"], self.rows, reports["s"], view, views)

    def covariance(self, n: int, frequencies: Floats) -> Covariance:
        """Exact: over all rows, the signs of two different cells are uncorrelated."""
        return independent_noise(self.variance(n, frequencies), n, frequencies)

    def draw_tally(self, histogram: Counts, generator: np.random.Generator) -> Counts:
        """Draw exactly in O(L K): a multinomial over the rows per cell, two binomials per row."""
        even = np.full(self.rows, 1 / self.rows)
        cells = np.arange(self.cells)
        truth = np.zeros((self.rows, 2), np.int64)
        step = max(1, (1 << 20) // self.rows)
        for start in range(0, self.cells, step):
            block = cells[start : start + step]
            drawn = generator.multinomial(histogram[block], even)
            odd = parity(block[:, None] & np.arange(self.rows)).astype(bool)
            minus = np.where(odd, drawn, 0).sum(axis=0)
            truth[:, 1] += minus
            truth[:, 0] += drawn.sum(axis=0) - minus
        return draw_signs(truth, self.p, generator)

    def channel(self) -> Channel:
        """Output 2 · row + sign."""
        require_enumerable(2 * self.rows)
        p, q = self.p / self.rows, (1 - self.p) / self.rows
        return tuple(
            tuple(
                p if (r & x).bit_count() % 2 == s else q for r in range(self.rows) for s in (0, 1)
            )
            for x in range(self.cells)
        )

    def worst_ratio(self) -> Fraction:
        """The row is independent of the input; given the row, the report is RR on a sign."""
        return Fraction(self.weight, OTHER)


def count_signs(
    row: NDArray[Any], rows: int, sign: NDArray[Any], view: NDArray[Any] | None, views: int
) -> Counts:
    """Count reports per view and (row, sign): shape (views, 2 · rows), int64."""
    place = row.astype(np.int64)
    if view is not None:
        place += view.astype(np.int64) * rows
    place <<= 1
    place |= sign
    return np.bincount(place, minlength=2 * views * rows).reshape(views, 2 * rows)


def draw_signs(truth: Counts, p: Fraction, generator: np.random.Generator) -> Counts:
    """Draw reported signs given the true ones per row; each is reported with probability p.

    Args:
        truth: shape (rows, 2), devices per row and true sign.
        p: probability of the truth.
        generator: seeded by the caller.

    Returns:
        Shape (2 · rows,), int64.
    """
    kept = generator.binomial(truth, float(p))
    drawn: Counts = (kept + (truth - kept)[:, ::-1]).astype(np.int64).reshape(-1)
    return drawn
