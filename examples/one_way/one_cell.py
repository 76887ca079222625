"""A mechanism for calmstream in a package of its own: a device answers about one random cell.

The device draws a cell and reports whether it is its own, by Warner's randomised response. The base
class is `calmstream.estimators.mechanisms.base.Mechanism`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from calmstream.estimators.draws import respond
from calmstream.estimators.mechanisms.base import Column, Covariance, Mechanism
from calmstream.estimators.mechanisms.grr import count_cells
from calmstream.estimators.randomness import WEIGHT_BITS, Randomness, exp_weight, uniform_below


@dataclass(frozen=True)
class OneCell(Mechanism):
    """Reports a uniform cell j and a bit b, which says with probability p whether j is its own."""

    name: ClassVar[str] = "one-cell"

    @property
    def columns(self) -> tuple[Column, ...]:
        return Column("j", "int", self.cells), Column("b", "int", 2)

    @property
    def width(self) -> int:
        return self.cells

    @property
    def p(self) -> Fraction:
        return Fraction(exp_weight(self.epsilon), exp_weight(self.epsilon) + (1 << WEIGHT_BITS))

    def perturb(self, values: np.ndarray, randomness: Randomness) -> dict[str, np.ndarray]:
        asked = uniform_below(self.cells, len(values), randomness)
        own = (asked == values).astype(np.int64)
        return {"j": asked, "b": respond(own, 2, exp_weight(self.epsilon), randomness)}

    def tally(self, reports: Mapping[str, Any], view: np.ndarray | None, views: int) -> np.ndarray:
        yes = reports["b"] == 1
        return count_cells(
            reports["j"][yes], self.cells, None if view is None else view[yes], views
        )

    def estimate(self, counts: np.ndarray, n: int) -> np.ndarray:
        p = float(self.p)
        return (counts * (self.cells / max(n, 1)) - (n > 0) * (1 - p)) / (2 * p - 1)

    def covariance(self, n: int, frequencies: np.ndarray) -> Covariance:
        """A report counts in one cell at most: the counters are multinomial, with "none"."""
        p = float(self.p)
        named = (1 - p + frequencies * (2 * p - 1)) / self.cells
        scale = self.cells / (2 * p - 1)
        return Covariance(named * scale**2 / n, (named * scale / np.sqrt(n))[:, None])

    def channel(self) -> tuple[tuple[Fraction, ...], ...]:
        yes, no = self.p / self.cells, (1 - self.p) / self.cells
        rows = range(self.cells)
        return tuple(
            tuple(r for j in rows for r in ((no, yes) if j == x else (yes, no))) for x in rows
        )
