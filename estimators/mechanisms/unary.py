"""Unary encodings, whose reports have one independent bit per cell."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from calmstream.estimators.arrays import Counts
from calmstream.estimators.draws import coins, coins_bytes
from calmstream.estimators.mechanisms.base import Channel, Column, Reports, ReportWork
from calmstream.estimators.mechanisms.bits import count_bits, random_rows, row_bytes
from calmstream.estimators.mechanisms.support import OTHER, SupportOracle
from calmstream.estimators.randomness import Randomness, exp_weight


@dataclass(frozen=True)
class UnaryOracle(SupportOracle):
    """The bit of the own cell, which the device holds, is 1 with probability p, any other with q.

    Report: column ``b``, L packed bits. Counters: the number of ones of each cell.
    Cost: L / 8 bytes to send, about L / 4 + 2 random bytes; O(L / 64) word operations to tally.
    """

    @property
    def columns(self) -> tuple[Column, ...]:
        return (Column("b", "bits", self.cells),)

    def tally(self, reports: Reports, view: NDArray[Any] | None, views: int) -> Counts:
        return count_bits(reports["b"], self.cells, view, views)

    def draw_tally(self, histogram: Counts, generator: np.random.Generator) -> Counts:
        """Draw from the exact distribution in O(L): every counter is a sum of two binomials."""
        return draw_supports(histogram, self.p, self.q, generator)

    def channel(self) -> Channel:
        p, q, cells = self.p, self.q, self.cells

        def probability(x: int, y: int) -> Fraction:
            ones = (y & ~(1 << x)).bit_count()
            return (p if y >> x & 1 else 1 - p) * q**ones * (1 - q) ** (cells - 1 - ones)

        return tuple(tuple(probability(x, y) for y in range(1 << cells)) for x in range(cells))


def replace_own(rows: NDArray[np.uint8], values: NDArray[Any], own: NDArray[np.uint8]) -> None:
    """Overwrite the bit of every report's own cell in packed ``rows`` by bit value % 8 of ``own``.

    Shapes (n, row bytes), (n,), and (n,) any bytes.
    """
    flat = rows.reshape(-1)
    position = values.astype(np.int64)
    mask = np.left_shift(np.uint8(1), (position & 7).astype(np.uint8))
    position >>= 3
    position += np.arange(0, flat.size, rows.shape[1])
    flat[position] = flat[position] & ~mask | own & mask


def draw_supports(
    histogram: Counts, p: Fraction, q: Fraction, generator: np.random.Generator
) -> Counts:
    """Draw the number of reports that support each cell, from that of its devices: (..., L)."""
    own = generator.binomial(histogram, float(p))
    others = generator.binomial(histogram.sum(axis=-1, keepdims=True) - histogram, float(q))
    return np.asarray(own + others, np.int64)


@dataclass(frozen=True)
class SUE(UnaryOracle):
    """One bit per cell, 1 at the own cell only; every bit is kept or flipped.

    Keeping has the weight floor(e^(epsilon/2) · 2^32), flipping 2^32: two inputs differ in two
    bits, so each bit may spend half of epsilon.
    """

    name: ClassVar[str] = "sue"

    @cached_property
    def half_weight(self) -> int:
        return exp_weight(self.epsilon, 2)

    @property
    def p(self) -> Fraction:
        return Fraction(self.half_weight, self.half_weight + OTHER)

    @property
    def q(self) -> Fraction:
        return Fraction(OTHER, self.half_weight + OTHER)

    @property
    def report_work(self) -> ReportWork:
        return ReportWork.of(self.columns, coins_bytes(row_bytes(self.cells)) + coins_bytes(1))

    def perturb(self, values: NDArray[Any], randomness: Randomness) -> dict[str, NDArray[Any]]:
        n = len(values)
        rows = random_rows(n, self.cells, self.q, randomness)
        ones = np.unpackbits(coins(row_bytes(n), self.p, randomness), count=n)
        replace_own(rows, np.asarray(values), np.where(ones, np.uint8(0xFF), np.uint8(0)))
        return {"b": rows}


@dataclass(frozen=True)
class OUE(UnaryOracle):
    """The bit of the own cell is 1 with probability 1/2.

    Any other bit is 1 with probability 2^32 / (2^32 + weight), weight = floor(e^epsilon · 2^32).
    """

    name: ClassVar[str] = "oue"

    @property
    def p(self) -> Fraction:
        return Fraction(1, 2)

    @property
    def q(self) -> Fraction:
        return Fraction(OTHER, self.weight + OTHER)

    @property
    def report_work(self) -> ReportWork:
        return ReportWork.of(self.columns, coins_bytes(row_bytes(self.cells)) + 1)

    def perturb(self, values: NDArray[Any], randomness: Randomness) -> dict[str, NDArray[Any]]:
        rows = random_rows(len(values), self.cells, self.q, randomness)
        fair = np.frombuffer(randomness.bytes(len(values)), np.uint8)
        replace_own(rows, np.asarray(values), fair)
        return {"b": rows}
