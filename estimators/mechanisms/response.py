"""Hadamard response (Acharya, Sun and Zhang, AISTATS 2019): one random row and one sign.

The paper's scheme reports one index instead; this variant has the same variance, and the
probability of supporting another cell is exactly 1/2.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from calmstream.estimators.arrays import Counts
from calmstream.estimators.draws import coins_bytes
from calmstream.estimators.mechanisms.base import Channel, Column, Reports, ReportWork
from calmstream.estimators.mechanisms.coefficient import flip
from calmstream.estimators.mechanisms.grr import count_cells
from calmstream.estimators.mechanisms.support import OTHER, SupportOracle, weighted_channel
from calmstream.estimators.numerics.hadamard import parity, power_of_two, transform
from calmstream.estimators.randomness import Randomness, uniform_below, uniform_bytes


@dataclass(frozen=True)
class HadamardResponse(SupportOracle):
    """A uniform row a in [0, K), and the sign chi_a(cell) by randomised response.

    K is the smallest power of two that is at least the number of cells, and chi_a(cell) is -1 if
    the binary numbers a and cell have an odd number of common ones, otherwise +1.

    Report: columns ``r``, the row, and ``s``, the sign (0 is +1, 1 is -1). It supports the cells
    that have the sign in the row: any two have equal ones in half of the K rows, so q is 1/2.
    Counters: the number of reports of each (row, sign). Cost: 2 to 5 random bytes, O(1) to perturb
    and to tally, O(K log K) to estimate.
    """

    name: ClassVar[str] = "hadamard-response"

    @property
    def rows(self) -> int:
        return power_of_two(self.cells)

    @property
    def width(self) -> int:
        return 2 * self.rows

    @property
    def columns(self) -> tuple[Column, ...]:
        return (Column("r", "int", self.rows), Column("s", "int", 2))

    @property
    def p(self) -> Fraction:
        return Fraction(self.weight, self.weight + OTHER)

    @property
    def q(self) -> Fraction:
        return Fraction(1, 2)

    def supports(self, counts: Counts, n: int) -> Counts:
        """Return for each cell the number of reports with its sign in their row.

        It is ``(n + sum over rows of chi · (plus - minus)) / 2``, with the reports of +1 and of -1.
        """
        plus, minus = counts.reshape(-1, 2).T
        supports: Counts = (n + transform(plus - minus)[: self.cells]) // 2
        return supports

    @property
    def report_work(self) -> ReportWork:
        return ReportWork.of(self.columns, uniform_bytes(self.rows, 1) + coins_bytes(1))

    def perturb(self, values: NDArray[Any], randomness: Randomness) -> dict[str, NDArray[Any]]:
        values = np.asarray(values).astype(np.int64)
        rows = uniform_below(self.rows, len(values), randomness)
        return {"r": rows, "s": flip(parity(rows & values), 1 - self.p, randomness)}

    def tally(self, reports: Reports, view: NDArray[Any] | None, views: int) -> Counts:
        signed_row = 2 * reports["r"].astype(np.int64) + reports["s"]
        return count_cells(signed_row, self.width, view, views)

    def draw_tally(self, histogram: Counts, generator: np.random.Generator) -> Counts:
        """Draw from the exact distribution in O(L K): a multinomial a cell, two binomials a row."""
        return draw_signs(draw_rows(histogram, self.rows, generator), self.p, generator)

    def channel(self) -> Channel:
        signs = parity(np.arange(self.rows)[:, None] & np.arange(self.cells))
        return weighted_channel(by_sign(signs), self.weight)


def by_sign(signs: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which cells each row and sign supports, (2 rows, L), from their signs: (rows, L)."""
    return np.stack([signs == 0, signs == 1], axis=1).reshape(-1, signs.shape[1])


def draw_rows(histogram: Counts, rows: int, generator: np.random.Generator) -> Counts:
    """Draw the numbers of true signs, (rows, 2), given how many devices hold each cell."""
    even, cells = np.full(rows, 1 / rows), np.arange(len(histogram))
    truth = np.zeros((rows, 2), np.int64)
    # Cells are drawn in blocks of about 2^20 entries, 8 MiB.
    step = max(1, (1 << 20) // rows)
    for start in range(0, len(cells), step):
        block = cells[start : start + step]
        drawn = generator.multinomial(histogram[block], even)
        odd = parity(block[:, None] & np.arange(rows)).astype(bool)
        minus = np.where(odd, drawn, 0).sum(axis=0)
        truth[:, 1] += minus
        truth[:, 0] += drawn.sum(axis=0) - minus
    return truth


def draw_signs(truth: Counts, p: Fraction, generator: np.random.Generator) -> Counts:
    """Draw the numbers of reported signs, (2 · rows,), given those of true ones, (rows, 2)."""
    kept = generator.binomial(truth, float(p))
    return np.asarray(kept + (truth - kept)[:, ::-1], np.int64).reshape(-1)
