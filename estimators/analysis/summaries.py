"""Means, quantiles and shares of ranges of ordered attributes, with standard errors.

Errors follow from the covariance of the cells: exact for sums and means, of first order for ratios.
Intervals of quantiles are by inversion (Woodruff 1952). See docs/numbers.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from calmstream.estimators.arrays import Floats
from calmstream.estimators.domain import Attribute
from calmstream.estimators.kinds import Number

Z95 = 1.959963984540054
"""A normal variable is within this many standard deviations with probability 0.95."""


@dataclass(frozen=True, slots=True, eq=False)
class SummaryLevels:
    """The ordered codes of an attribute."""

    positions: Floats  # (levels,), rising; labels are counted from 0
    bounds: Floats  # (levels, 2), lower and upper end; both the position of a single number
    count: int  # with codes without an order: a number's code `other` is its last one

    @property
    def size(self) -> int:
        return len(self.positions)

    @property
    def ends(self) -> tuple[float, float]:
        numbers = np.concatenate([self.positions, self.bounds.ravel()])
        numbers = numbers[np.isfinite(numbers)]
        return float(numbers.min()), float(numbers.max())


@dataclass(frozen=True, slots=True)
class Value:
    """A number with its standard error and 95 % interval; NaN where nothing is known."""

    value: float
    stderr: float
    low: float
    high: float


UNKNOWN = Value(float("nan"), float("nan"), float("nan"), float("nan"))


def levels(attribute: Attribute) -> SummaryLevels:
    kind = attribute.kind
    if isinstance(kind, Number):
        return SummaryLevels(kind.positions, kind.bounds, attribute.cardinality)
    index = np.arange(attribute.cardinality, dtype=np.float64)
    return SummaryLevels(index, np.stack([index, index], axis=1), attribute.cardinality)


@dataclass(frozen=True, eq=False)
class Distribution:
    """The estimated distribution of one ordered attribute."""

    levels: SummaryLevels
    shares: Floats  # (codes,), of all codes; any sign, any positive sum
    covariance: Floats  # (codes, codes)

    @cached_property
    def _mass(self) -> float:
        return float(self.shares[: self.levels.size].sum())

    def ratio(self, weights: Floats) -> Value:
        """Return the weighted sum of the ordered shares over their sum; weights (levels,)."""
        if self._mass <= 0.0:
            return UNKNOWN
        size = self.levels.size
        value = float(weights @ self.shares[:size]) / self._mass
        slope = (weights - value) / self._mass
        variance = float(slope @ self.covariance[:size, :size] @ slope)
        stderr = float(np.sqrt(max(variance, 0.0)))
        return Value(value, stderr, value - Z95 * stderr, value + Z95 * stderr)

    def mean(self) -> Value:
        """Return the mean of the positions; middles stand for bins: see `mean_bounds`."""
        return self.ratio(self.levels.positions)

    def mean_bounds(self) -> tuple[Value, Value]:
        """Return the means if all values were at the lower, or at the upper end of their bins."""
        own = self.levels
        ends = np.where(np.isfinite(own.bounds), own.bounds, own.positions[:, None])
        return self.ratio(ends[:, 0]), self.ratio(ends[:, 1])

    def share_of(self, weights: Floats) -> Value:
        """Return the share of the codes whose weight is 1, not 0, within 0 to 1."""
        found = self.ratio(weights)
        return Value(found.value, found.stderr, max(found.low, 0.0), min(found.high, 1.0))

    def quantile(self, share: float) -> Value:
        """Return the value below which this share of the ordered values lies.

        Values are taken as spread evenly within a bin. The standard error is half of the 95 %
        interval's width, over 1.96.
        """
        if self._mass <= 0.0 or not 0.0 < share < 1.0:
            return UNKNOWN
        shares = np.maximum(self.shares[: self.levels.size], 0.0)
        below = np.concatenate([[0.0], np.cumsum(shares)]) / shares.sum()
        error = np.concatenate([[0.0], self._cumulative_errors()])
        value = self._invert(below, share)
        low = self._invert(np.maximum.accumulate(np.clip(below + Z95 * error, 0, 1)), share)
        lower = np.clip(below - Z95 * error, 0.0, 1.0)
        high = self._invert(np.minimum.accumulate(lower[::-1])[::-1], share)
        return Value(value, (high - low) / (2.0 * Z95), min(low, value), max(high, value))

    def _cumulative_errors(self) -> Floats:
        size = self.levels.size
        running = np.tril(np.ones((size, size)))
        value = running @ self.shares[:size] / self._mass
        slope = (running - value[:, None]) / self._mass
        variance = ((slope @ self.covariance[:size, :size]) * slope).sum(axis=1)
        return np.asarray(np.sqrt(np.maximum(variance, 0.0)), np.float64)

    def _invert(self, below: Floats, share: float) -> float:
        place = int(np.searchsorted(below[1:], share, side="left"))
        place = min(place, self.levels.size - 1)
        low, high = self.levels.bounds[place]
        if not (np.isfinite(low) and np.isfinite(high)):
            return float(self.levels.positions[place])
        height = below[place + 1] - below[place]
        inside = 0.0 if height <= 0.0 else (share - below[place]) / height
        return float(low + min(max(inside, 0.0), 1.0) * (high - low))
