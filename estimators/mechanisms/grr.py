"""Generalised randomised response: report the true cell or another one.

Also called direct encoding and preferential sampling; with two cells, Warner's randomised response.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from estimators.mechanisms.base import Column, ReportWork, require_enumerable
from estimators.mechanisms.covariance import one_cell_covariance
from estimators.mechanisms.support import OTHER, SupportOracle, one_cell
from estimators.randomness import WEIGHT_BITS, uniform_below, uniform_bytes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from estimators.mechanisms.base import Channel, Counts, Covariance, Floats, Reports
    from estimators.randomness import Randomness

BLOCK = 1 << 14
"""Reports perturbed at once, so that intermediate arrays stay in a core's cache."""


@dataclass(frozen=True)
class GRR(SupportOracle):
    """Truth with weight floor(e^epsilon · 2^32), every other cell with weight 2^32.

    Report: column ``v``, the reported cell. Counters: reports per cell.
    Cost: 8 random bytes a report; O(1) to perturb and to tally.
    """

    name: ClassVar[str] = "grr"
    fixed_total: ClassVar[bool] = True

    @property
    def columns(self) -> tuple[Column, ...]:
        """The reported cell."""
        return (Column("v", "int", self.cells),)

    @property
    def _total(self) -> int:
        return self.weight + (self.cells - 1) * OTHER

    @property
    def p(self) -> Fraction:
        """Probability of the truth."""
        return Fraction(self.weight, self._total)

    @property
    def q(self) -> Fraction:
        """Probability of one given other cell."""
        return Fraction(OTHER, self._total)

    @property
    def report_work(self) -> ReportWork:
        """One draw."""
        return ReportWork.of(self.columns, uniform_bytes(self._total, 1))

    def perturb(self, values: NDArray[Any], randomness: Randomness) -> dict[str, NDArray[Any]]:
        """See :meth:`Mechanism.perturb`; column ``v`` is int64."""
        return {"v": respond(np.asarray(values), self.cells, self.weight, randomness)}

    def tally(self, reports: Reports, view: NDArray[Any] | None, views: int) -> Counts:
        """Count reports per view and cell."""
        return count_cells(reports["v"], self.cells, view, views)

    def covariance(self, n: int, frequencies: Floats) -> Covariance:
        """Exact; see :meth:`Mechanism.covariance`."""
        return one_cell_covariance(float(self.p - self.q), float(self.q), n, frequencies)

    def influence(self, weights: Floats, times: Floats) -> float:
        """Exact; see :meth:`Mechanism.influence`."""
        return one_cell(weights, times, *self._rates)

    def draw_tally(self, histogram: Counts, generator: np.random.Generator) -> Counts:
        """Draw exactly in O(L): keep with probability p - q, otherwise uniform on all cells."""
        kept = generator.binomial(histogram, float(self.p - self.q))
        rest = int(histogram.sum() - kept.sum())
        drawn = kept + generator.multinomial(rest, np.full(self.cells, 1 / self.cells))
        return drawn.astype(np.int64)

    def channel(self) -> Channel:
        """Output y is the reported cell."""
        require_enumerable(self.cells)
        p, q = self.p, self.q
        return tuple(
            tuple(p if x == y else q for y in range(self.cells)) for x in range(self.cells)
        )

    def worst_ratio(self) -> Fraction:
        """Return p / q: an output is the true cell or one of the equally likely others."""
        return self.p / self.q


def respond(
    values: NDArray[Any], cells: int, weight: int, randomness: Randomness
) -> NDArray[np.int64]:
    """Randomise every value: it is kept with odds weight : 2^32 against any one other cell.

    Args:
        values: shape (n,), integers in [0, cells).
        cells: number of cells.
        weight: of the true cell; the others weigh 2^32 each.
        randomness: source of uniform bytes.

    Returns:
        Shape (n,), int64.
    """
    total = weight + (cells - 1) * OTHER
    out = np.empty(len(values), np.int64)
    for start in range(0, len(values), BLOCK):
        value = values[start : start + BLOCK].astype(np.int64)
        # One draw decides both: below the weight it is the truth (negative here), above it the
        # multiple of 2^32 numbers the other cells.
        other = (uniform_below(total, len(value), randomness) - weight) >> WEIGHT_BITS
        lies = other >= 0
        other += other >= value
        np.copyto(value, other, where=lies)
        out[start : start + BLOCK] = value
    return out


def count_cells(cell: NDArray[Any], cells: int, view: NDArray[Any] | None, views: int) -> Counts:
    """Count reports per view and cell: shape (views, cells), int64."""
    if view is not None:
        cell = cell.astype(np.int64) + view.astype(np.int64) * cells
    return np.bincount(cell, minlength=views * cells).reshape(views, cells)
