"""Frequency oracles whose reports *support* cells: one estimator and one variance for all of them.

A report supports its own cell with probability p and any other cell with probability q (Wang et
al., USENIX Security 2017, call this a pure protocol). The mechanisms differ in how they get there.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from estimators.errors import PlanError
from estimators.randomness import WEIGHT_BITS, exp_weight

if TYPE_CHECKING:
    from fractions import Fraction

    from numpy.typing import NDArray

    from estimators.mechanisms.base import Counts, Covariance, Floats

MAX_CELLS = 1 << 24
"""More cells than any table that can be released; keeps every weight sum below 2^63."""

OTHER = 1 << WEIGHT_BITS
"""Weight of every input other than the true one."""


@dataclass(frozen=True)
class SupportOracle(ABC):
    """What all pure protocols share; see :class:`estimators.mechanisms.base.Mechanism`.

    Attributes:
        epsilon: decimal string, the whole loss of one report.
        cells: number of inputs L, 2 to :attr:`max_cells`.
    """

    name: ClassVar[str]
    fixed_total: ClassVar[bool]
    largest_count: ClassVar[int] = 1
    counts_joint: ClassVar[bool] = True
    max_cells: ClassVar[int] = MAX_CELLS

    epsilon: str
    cells: int

    def __post_init__(self) -> None:
        exp_weight(self.epsilon)
        require_integer(f"{self.name}.cells", self.cells, 2, self.max_cells)

    @classmethod
    def standard(cls, epsilon: str, cells: int) -> Self:
        """Return the mechanism with its recommended parameters."""
        return cls(epsilon, cells)

    @cached_property
    def weight(self) -> int:
        """floor(exp(epsilon) · 2^32): what the true input weighs against 2^32 for another."""
        return exp_weight(self.epsilon)

    @property
    @abstractmethod
    def p(self) -> Fraction:
        """Probability that a report supports its own cell, exact."""

    @property
    @abstractmethod
    def q(self) -> Fraction:
        """Probability that a report supports another given cell, exact; below p."""

    @property
    def width(self) -> int:
        """One support counter per cell."""
        return self.cells

    @property
    def drawn_cells(self) -> int:
        """All cells."""
        return self.cells

    def check(self) -> None:  # noqa: B027 - a mechanism may leave nothing open
        """The constructor has checked everything."""

    def parameters(self) -> dict[str, Any]:
        """No parameters beyond epsilon and cells."""
        return {}

    def supports(self, counts: Counts, n: int) -> Counts:  # noqa: ARG002 - overridden with it
        """Reports that support each cell: shape (L,). Here the counters themselves."""
        return counts

    def estimate(self, counts: Counts, n: int) -> Floats:
        """(C / n - q) / (p - q): unbiased, not normalised, may be negative; zeros when n is 0."""
        if n == 0:
            return np.zeros(self.cells)
        other, gap = self._rates
        supports = self.supports(counts, n).astype(np.float64)
        return (supports - n * other) / (n * gap)

    @cached_property
    def _rates(self) -> tuple[float, float]:
        """Both q and p - q as floats: the exact ones take as long as an estimate."""
        return float(self.q), float(self.p - self.q)

    def influence(self, weights: Floats, times: Floats) -> float:
        """See :meth:`Mechanism.influence`; a bound, exact where any set of cells can be reported.

        Every report supports some set of cells, and supporting one adds (1 - q) / (p - q) to its
        estimate, not supporting it -q / (p - q).
        """
        other, gap = self._rates
        best = np.maximum(weights * (1.0 - other), -weights * other)
        return float(times @ best) / gap

    def variance(self, n: int, frequencies: Floats | None = None) -> Floats:
        """Exact variance of each cell's estimate given the data: shape (L,)."""
        f = np.full(self.cells, 1 / self.cells) if frequencies is None else frequencies
        p, q = self.p, self.q
        noise = float(q * (1 - q) / (p - q) ** 2)
        slope = float((1 - p - q) / (p - q))
        variance: Floats = (noise + np.asarray(f) * slope) / n
        return variance

    @abstractmethod
    def covariance(self, n: int, frequencies: Floats) -> Covariance:
        """See :meth:`Mechanism.covariance`: it depends on how the support of cells is tied."""

    @abstractmethod
    def draw_tally(self, histogram: Counts, generator: np.random.Generator) -> Counts:
        """See :meth:`Mechanism.draw_tally`."""

    def draw_tally_of(self, values: NDArray[Any], generator: np.random.Generator) -> Counts:
        """See :meth:`Mechanism.draw_tally_of`."""
        return self.draw_tally(np.bincount(values, minlength=self.cells), generator)


def one_cell_influence(weights: Floats, times: Floats, q: float, gap: float) -> float:
    """:meth:`Mechanism.influence` where a report supports exactly one cell, any one."""
    return float(weights[times > 0].max() - q * (times @ weights)) / gap


def require_integer(what: str, value: object, low: int, high: int) -> None:
    """Refuse anything but an integer in [low, high], naming it.

    Raises:
        PlanError: not an integer, or outside.
    """
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise PlanError(f"{what} must be an integer from {low} to {high}, got {value!r}")


def table_error(oracle: SupportOracle) -> Fraction:
    """Exact n·SSE: n times the summed variance of a table's cells."""
    p, q = oracle.p, oracle.q
    return (oracle.cells * q * (1 - q) / (p - q) + 1 - p - q) / (p - q)
