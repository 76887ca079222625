"""Randomised response on one sign, a Hadamard coefficient of the record, which the view names."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from calmstream.estimators.arrays import Counts
from calmstream.estimators.draws import coins, coins_bytes
from calmstream.estimators.mechanisms.base import Column, Reports, ReportWork
from calmstream.estimators.mechanisms.bits import row_bytes
from calmstream.estimators.mechanisms.grr import GRR
from calmstream.estimators.randomness import Randomness


@dataclass(frozen=True)
class HadamardCoefficient(GRR):
    """GRR on a sign, by coins: input 0 is +1, input 1 is -1.

    Report: column ``s``, the reported input. Counters: one per view, the number of reports of -1.
    The coefficient is ``estimate[0] - estimate[1]``; the two always sum to 1.
    Cost: 2 random bytes for 8 reports, O(1) to perturb and to tally.
    """

    name: ClassVar[str] = "hadamard-coefficient"
    max_cells: ClassVar[int] = 2

    @property
    def width(self) -> int:
        return 1

    @property
    def columns(self) -> tuple[Column, ...]:
        return (Column("s", "int", 2),)

    def supports(self, counts: Counts, n: int) -> Counts:
        return np.array([n - counts[0], counts[0]])

    @property
    def report_work(self) -> ReportWork:
        return ReportWork.of(self.columns, coins_bytes(1))

    def perturb(self, values: NDArray[Any], randomness: Randomness) -> dict[str, NDArray[Any]]:
        return {"s": flip(np.asarray(values).astype(np.uint8), self.q, randomness)}

    def tally(self, reports: Reports, view: NDArray[Any] | None, views: int) -> Counts:
        signs = reports["s"]
        if view is None:
            return np.array([[np.count_nonzero(signs)]], np.int64)
        return np.bincount(view[signs != 0], minlength=views)[:, None]

    def draw_tally(self, histogram: Counts, generator: np.random.Generator) -> Counts:
        """Draw from the exact distribution in O(1): two binomials."""
        minus = generator.binomial(histogram, [float(self.q), float(self.p)])
        return np.asarray(minus.sum(axis=-1, keepdims=True), np.int64)


def flip(
    signs: NDArray[np.uint8], probability: Fraction, randomness: Randomness
) -> NDArray[np.uint8]:
    """Invert each 0 or 1 independently with exactly the probability: shape (n,), uint8."""
    n = len(signs)
    return signs ^ np.unpackbits(coins(row_bytes(n), probability, randomness), count=n)
