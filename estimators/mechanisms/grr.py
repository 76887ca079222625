"""Generalised randomised response (GRR), also called direct encoding or preferential sampling."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from calmstream.estimators.arrays import Counts, Floats
from calmstream.estimators.draws import respond
from calmstream.estimators.mechanisms.base import Channel, Column, Covariance, Reports
from calmstream.estimators.mechanisms.covariance import one_cell_covariance
from calmstream.estimators.mechanisms.support import OTHER, SupportOracle, weighted_channel
from calmstream.estimators.randomness import Randomness


@dataclass(frozen=True)
class GRR(SupportOracle):
    """A device reports its true cell or another one; with two cells it is Warner's response.

    The true cell has the weight floor(e^epsilon · 2^32), every other cell 2^32.
    Report: column ``v``, the reported cell. Counters: the number of reports of each cell.
    Cost: 4 random bytes per report; O(1) to perturb and to tally.
    """

    name: ClassVar[str] = "grr"
    fixed_total: ClassVar[bool] = True

    @property
    def columns(self) -> tuple[Column, ...]:
        return (Column("v", "int", self.cells),)

    @property
    def p(self) -> Fraction:
        return Fraction(self.weight, self.weight + (self.cells - 1) * OTHER)

    @property
    def q(self) -> Fraction:
        return Fraction(OTHER, self.weight + (self.cells - 1) * OTHER)

    def perturb(self, values: NDArray[Any], randomness: Randomness) -> dict[str, NDArray[Any]]:
        return {"v": respond(np.asarray(values), self.cells, self.weight, randomness)}

    def tally(self, reports: Reports, view: NDArray[Any] | None, views: int) -> Counts:
        return count_cells(reports["v"], self.cells, view, views)

    def covariance(self, n: int, frequencies: Floats) -> Covariance:
        return one_cell_covariance(float(self.p - self.q), float(self.q), n, frequencies)

    def rarest(self, expected: Floats, _shape: Sequence[int], _axes: Sequence[int], /) -> float:
        rate = expected * float(self.p - self.q) + float(self.q) * (self.cells / len(expected))
        return max(float(np.minimum(rate, 1.0 - rate).min()), 0.0)

    def draw_tally(self, histogram: Counts, generator: np.random.Generator) -> Counts:
        """Draw exactly, in O(L); also for rows: kept with p - q, else uniform over all cells."""
        kept = generator.binomial(histogram, float(self.p - self.q))
        rest = histogram.sum(axis=-1) - kept.sum(axis=-1)
        drawn = kept + generator.multinomial(rest, np.full(self.cells, 1 / self.cells))
        return drawn.astype(np.int64)

    def channel(self) -> Channel:
        return weighted_channel(np.eye(self.cells, dtype=np.bool_), self.weight)


def count_cells(cell: NDArray[Any], cells: int, view: NDArray[Any] | None, views: int) -> Counts:
    """Count reports per view and cell: shape (views, cells), int64."""
    if view is not None:
        cell = cell.astype(np.int64) + view.astype(np.int64) * cells
    return np.bincount(cell, minlength=views * cells).reshape(views, cells)
