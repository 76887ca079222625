"""Randomised response on one sign: a Hadamard coefficient of the device's input.

The report's view names the coefficient, so the mechanism itself has two inputs only.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from estimators.mechanisms.base import Column, ReportWork
from estimators.mechanisms.bits import row_bytes
from estimators.mechanisms.covariance import one_cell_covariance
from estimators.mechanisms.support import OTHER, SupportOracle, one_cell
from estimators.randomness import coins, coins_bytes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from estimators.mechanisms.base import Channel, Counts, Covariance, Floats, Reports
    from estimators.randomness import Randomness


@dataclass(frozen=True)
class HadamardCoefficient(SupportOracle):
    """Input 0 is the sign +1, input 1 is -1; the truth has odds floor(e^epsilon · 2^32) : 2^32.

    Report: column ``s``, the reported input. Counters: one per view, the reports of -1.
    The coefficient is ``estimate[0] - estimate[1]``; the two always sum to 1.
    Cost: about one random byte a report, O(1) to perturb and to tally.
    """

    name: ClassVar[str] = "hadamard-coefficient"
    fixed_total: ClassVar[bool] = True
    most_cells: ClassVar[int] = 2

    @property
    def width(self) -> int:
        """Reports of -1; the rest of n reported +1."""
        return 1

    @property
    def columns(self) -> tuple[Column, ...]:
        """The sign."""
        return (Column("s", "int", 2),)

    @property
    def p(self) -> Fraction:
        """Probability of the true sign."""
        return Fraction(self.weight, self.weight + OTHER)

    @property
    def q(self) -> Fraction:
        """Probability of the other sign."""
        return Fraction(OTHER, self.weight + OTHER)

    def supports(self, counts: Counts, n: int) -> Counts:
        """Reports of +1 and of -1."""
        return np.array([n - counts[0], counts[0]])

    @property
    def report_work(self) -> ReportWork:
        """One coin."""
        return ReportWork.of(self.columns, coins_bytes(1))

    def perturb(self, values: NDArray[Any], randomness: Randomness) -> dict[str, NDArray[Any]]:
        """See :meth:`Mechanism.perturb`; column ``s`` is uint8."""
        return {"s": flip(np.asarray(values).astype(np.uint8), self.q, randomness)}

    def tally(self, reports: Reports, view: NDArray[Any] | None, views: int) -> Counts:
        """Reports of -1 per view."""
        signs = reports["s"]
        if view is None:
            return np.array([[np.count_nonzero(signs)]], np.int64)
        return np.bincount(view[signs != 0], minlength=views)[:, None]

    def covariance(self, n: int, frequencies: Floats) -> Covariance:
        """Exact; see :meth:`Mechanism.covariance`."""
        return one_cell_covariance(float(self.p - self.q), float(self.q), n, frequencies)

    def influence(self, weights: Floats, times: Floats) -> float:
        """Exact; see :meth:`Mechanism.influence`."""
        return one_cell(weights, times, *self._rates)

    def draw_tally(self, histogram: Counts, generator: np.random.Generator) -> Counts:
        """Draw from the exact distribution in O(1): two binomials."""
        minus_rates = [float(self.q), float(self.p)]
        minus: Counts = (
            generator.binomial(histogram, minus_rates).sum(keepdims=True).astype(np.int64)
        )
        return minus

    def channel(self) -> Channel:
        """Output y is the reported input."""
        return ((self.p, self.q), (self.q, self.p))

    def worst_ratio(self) -> Fraction:
        """Return p / q."""
        return self.p / self.q


def flip(signs: NDArray[np.uint8], odds: Fraction, randomness: Randomness) -> NDArray[np.uint8]:
    """Invert each 0 or 1 independently with probability exactly ``odds``: shape (n,), uint8."""
    n = len(signs)
    return signs ^ np.unpackbits(coins(row_bytes(n), odds, randomness), count=n)
