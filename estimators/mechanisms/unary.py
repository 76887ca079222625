"""The common part of unary encodings: one independent bit per cell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from estimators.mechanisms.base import Column, require_enumerable
from estimators.mechanisms.bits import count_bits
from estimators.mechanisms.covariance import independent_noise
from estimators.mechanisms.support import SupportOracle

if TYPE_CHECKING:
    from fractions import Fraction

    from numpy.typing import NDArray

    from estimators.mechanisms.base import Channel, Counts, Covariance, Floats, Reports


@dataclass(frozen=True)
class UnaryOracle(SupportOracle):
    """Bit v is 1 with probability p at the own cell v and q elsewhere, independently.

    Report: column ``b``, L packed bits. Counters: ones per cell.
    """

    fixed_total: ClassVar[bool] = False

    @property
    def columns(self) -> tuple[Column, ...]:
        """The bits of all cells."""
        return (Column("b", "bits", self.cells),)

    def tally(self, reports: Reports, view: NDArray[Any] | None, views: int) -> Counts:
        """Count ones per view and cell."""
        return count_bits(reports["b"], self.cells, view, views)

    def covariance(self, n: int, frequencies: Floats) -> Covariance:
        """Exact: the bits are independent; see :meth:`Mechanism.covariance`."""
        return independent_noise(self.variance(n, frequencies), n, frequencies)

    def draw_tally(self, histogram: Counts, generator: np.random.Generator) -> Counts:
        """Draw exactly in O(L): bits are independent, so every counter is two binomials."""
        return draw_supports(histogram, self.p, self.q, generator)

    def channel(self) -> Channel:
        """Output y is the integer whose bit b is the bit of cell b."""
        require_enumerable(1 << min(self.cells, 64))
        p, q, cells = self.p, self.q, self.cells

        def probability(x: int, y: int) -> Fraction:
            ones = (y & ~(1 << x)).bit_count()
            return (p if y >> x & 1 else 1 - p) * q**ones * (1 - q) ** (cells - 1 - ones)

        return tuple(tuple(probability(x, y) for y in range(1 << cells)) for x in range(cells))

    def worst_ratio(self) -> Fraction:
        """Two inputs differ in two bits only: p(1 - q) / (q(1 - p))."""
        return self.p * (1 - self.q) / (self.q * (1 - self.p))


def replace_own(rows: NDArray[np.uint8], values: NDArray[Any], own: NDArray[np.uint8]) -> None:
    """Overwrite, in place, the bit of every report's own cell.

    Args:
        rows: shape (n, row bytes), packed.
        values: shape (n,), own cells.
        own: shape (n,), any bytes; the bit at position value % 8 is taken.
    """
    flat = rows.reshape(-1)
    place = values.astype(np.int64)
    mask = np.left_shift(np.uint8(1), (place & 7).astype(np.uint8))
    place >>= 3
    place += np.arange(0, flat.size, rows.shape[1])
    flat[place] = flat[place] & ~mask | own & mask


def draw_supports(
    histogram: Counts, p: Fraction, q: Fraction, generator: np.random.Generator
) -> Counts:
    """Draw support counts for cells that are supported independently: shape (L,), int64."""
    own = generator.binomial(histogram, float(p))
    others = generator.binomial(histogram.sum() - histogram, float(q))
    drawn: Counts = (own + others).astype(np.int64)
    return drawn
