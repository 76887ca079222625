"""Mechanisms whose reports support cells: one estimator and one variance.

A report supports its own cell, the true one, with probability p and any other cell with probability
q; Wang et al. (USENIX Security 2017) call this a pure protocol.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from calmstream.common.errors import PlanError
from calmstream.estimators.arrays import Counts, Floats
from calmstream.estimators.mechanisms.base import Channel, Mechanism
from calmstream.estimators.mechanisms.covariance import (
    Covariance,
    independent_noise,
    spread_evenly,
)
from calmstream.estimators.randomness import WEIGHT_BITS, exp_weight

MAX_CELLS = 1 << 24  # inputs: more than any table that can be published; weights sum below 2^63
OTHER = 1 << WEIGHT_BITS  # weight of every input other than the true one


@dataclass(frozen=True)
class SupportOracle(Mechanism):
    """The base class of pure protocols; ``cells`` is 2 to ``max_cells``."""

    max_cells: ClassVar[int] = MAX_CELLS

    def __post_init__(self) -> None:
        exp_weight(self.epsilon)
        require_integer(f"{self.name}.cells", self.cells, 2, self.max_cells)

    @cached_property
    def weight(self) -> int:
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
        return self.cells

    def supports(self, counts: Counts, n: int) -> Counts:  # noqa: ARG002 - overridden with it
        return counts

    def estimate(self, counts: Counts, n: int) -> Floats:
        """Return ``(C / n - q) / (p - q)``, where C are the supports."""
        if n == 0:
            return np.zeros(self.cells)
        other, gap = self._rates
        supports = self.supports(counts, n).astype(np.float64)
        return (supports - n * other) / (n * gap)

    @cached_property
    def _rates(self) -> tuple[float, float]:
        """The floats q and p - q, kept because their exact computation is slow."""
        return float(self.q), float(self.p - self.q)

    def variance(self, n: int, frequencies: Floats | None = None) -> Floats:
        f = np.full(self.cells, 1 / self.cells) if frequencies is None else frequencies
        p, q = self.p, self.q
        noise = float(q * (1 - q) / (p - q) ** 2)
        slope = float((1 - p - q) / (p - q))
        return np.asarray((noise + np.asarray(f) * slope) / n)

    def covariance(self, n: int, frequencies: Floats) -> Covariance:
        """Return the covariance where a report supports other cells independently."""
        return independent_noise(self.variance(n, frequencies), n, frequencies)

    def rarest(self, expected: Floats, shape: Sequence[int], axes: Sequence[int], /) -> float:
        q, gap = self._rates
        rate = q + gap * spread_evenly(expected, shape, axes)
        return max(float(np.minimum(rate, 1.0 - rate).min()), 0.0)


def weighted_channel(supported: NDArray[np.bool_], weight: int) -> Channel:
    """Return the channel in which a report has the weight ``weight`` if it supports the input.

    ``supported``: which cells each output supports, (outputs, L); others have the weight 2^32.
    """
    rows = np.where(supported.T, weight, OTHER).tolist()
    total = sum(rows[0])
    return tuple(tuple(Fraction(one, total) for one in row) for row in rows)


def require_integer(what: str, value: object, low: int, high: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise PlanError(f"{what} must be an integer from {low} to {high}, got {value!r}")


def table_error(oracle: SupportOracle) -> Fraction:
    """Return n times the sum of the variances of a table's cells, exactly."""
    p, q = oracle.p, oracle.q
    return (oracle.cells * q * (1 - q) / (p - q) + 1 - p - q) / (p - q)
