"""Optimised unary encoding: one bit per cell (Wang et al., USENIX Security 2017)."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from estimators.mechanisms.base import Column, require_enumerable
from estimators.mechanisms.bits import count_bits, random_rows
from estimators.mechanisms.support import OTHER, SupportOracle

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from estimators.mechanisms.base import Channel, Counts, Reports
    from estimators.randomness import Randomness


@dataclass(frozen=True)
class OUE(SupportOracle):
    """The own bit is fair; every other bit is 1 with odds 2^32 : floor(e^epsilon · 2^32).

    Report: column ``b``, L packed bits. Counters: ones per cell.
    Cost: L / 8 bytes to send, about L + 1 random bytes; O(L / 64) word operations to tally.
    """

    name: ClassVar[str] = "oue"

    @property
    def columns(self) -> tuple[Column, ...]:
        """The bits of all cells."""
        return (Column("b", "bits", self.cells),)

    @property
    def p(self) -> Fraction:
        """Probability of a 1 at the own cell."""
        return Fraction(1, 2)

    @property
    def q(self) -> Fraction:
        """Probability of a 1 at another cell."""
        return Fraction(OTHER, self.weight + OTHER)

    def perturb(self, values: NDArray[Any], randomness: Randomness) -> dict[str, NDArray[Any]]:
        """See :meth:`Mechanism.perturb`; column ``b`` has shape (n, ceil(L / 8))."""
        rows = random_rows(len(values), self.cells, self.q, randomness)
        fair = np.frombuffer(randomness.bytes(len(values)), np.uint8)
        replace_own(rows, np.asarray(values), fair)
        return {"b": rows}

    def tally(self, reports: Reports, view: NDArray[Any] | None, views: int) -> Counts:
        """Ones per view and cell."""
        return count_bits(reports["b"], self.cells, view, views)

    def draw_tally(self, histogram: Counts, generator: np.random.Generator) -> Counts:
        """Exact law in O(L): the bits are independent, so every counter is two binomials."""
        return draw_unary(histogram, self.p, self.q, generator)

    def channel(self) -> Channel:
        """Output y is the integer whose bit b is the bit of cell b."""
        return unary_channel(self.cells, self.p, self.q)

    def worst_ratio(self) -> Fraction:
        """Two inputs differ in two bits only: p(1 - q) / (q(1 - p))."""
        return unary_ratio(self.p, self.q)


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


def draw_unary(
    histogram: Counts, p: Fraction, q: Fraction, generator: np.random.Generator
) -> Counts:
    """Ones per cell of independent bits: shape (L,), int64."""
    own = generator.binomial(histogram, float(p))
    others = generator.binomial(histogram.sum() - histogram, float(q))
    ones: Counts = (own + others).astype(np.int64)
    return ones


def unary_channel(cells: int, p: Fraction, q: Fraction) -> Channel:
    """Exact channel of independent bits, outputs numbered by their packed integer."""
    require_enumerable(1 << min(cells, 64))

    def chance(x: int, y: int) -> Fraction:
        ones = (y & ~(1 << x)).bit_count()
        return (p if y >> x & 1 else 1 - p) * q**ones * (1 - q) ** (cells - 1 - ones)

    return tuple(tuple(chance(x, y) for y in range(1 << cells)) for x in range(cells))


def unary_ratio(p: Fraction, q: Fraction) -> Fraction:
    """Worst likelihood ratio of independent bits with p above q."""
    return p * (1 - q) / (q * (1 - p))
