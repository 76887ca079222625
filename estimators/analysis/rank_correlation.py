"""Rank correlation of two ordered attributes with ties (Spearman's), with its standard error."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from calmstream.estimators.analysis.summaries import Z95, Value

Floats = NDArray[np.float64]


def rank_correlation(table: Floats, covariance: Floats) -> Value:
    """Return Spearman's rank correlation of a table; tied values have the mean of their ranks.

    Args:
        table: shape (r, s), any positive sum; negative cells are possible.
        covariance: shape (r s, r s), cells row-major.

    Returns:
        The correlation, within -1 to 1, its standard error of first order and a 95 % interval;
        NaN where an attribute has one value only. Cost O(r² s²).
    """
    total = float(table.sum())
    if total <= 0.0:
        return _unknown()
    cells = table / total
    rows, columns = cells.sum(axis=1), cells.sum(axis=0)
    # Ranks are scaled to -1/2 .. 1/2, with mean 0 under the margins.
    first, second = _ranks(rows), _ranks(columns)
    spread = [float(p @ np.square(rank)) for p, rank in ((rows, first), (columns, second))]
    if min(spread) <= 0.0:
        return _unknown()
    scale = float(np.sqrt(spread[0] * spread[1]))
    value = float(first @ cells @ second) / scale
    slope = _slope(cells, first, second) / scale
    by_row = np.square(first) + 2.0 * _through_ranks(rows * first)
    by_column = np.square(second) + 2.0 * _through_ranks(columns * second)
    slope = slope - value / 2.0 * (by_row / spread[0])[:, None]
    slope = slope - value / 2.0 * (by_column / spread[1])[None, :]
    # The cells are divided by their sum.
    slope = (slope - float((slope * cells).sum())) / total
    flat = slope.ravel()
    stderr = float(np.sqrt(max(float(flat @ covariance @ flat), 0.0)))
    value = min(max(value, -1.0), 1.0)
    low, high = max(value - Z95 * stderr, -1.0), min(value + Z95 * stderr, 1.0)
    return Value(value, stderr, low, high)


def _ranks(p: Floats) -> Floats:
    """Return the middle of each value's ranks, minus 1/2."""
    return np.asarray(np.cumsum(p) - p / 2.0 - 0.5, np.float64)


def _through_ranks(weights: Floats) -> Floats:
    """Return the derivative of a sum of weighted ranks by each share.

    Rank i is the sum of the shares before i and half of share i. Shape of the weights.
    """
    after = weights[::-1].cumsum()[::-1] - weights
    return np.asarray(after + weights / 2.0, np.float64)


def _slope(cells: Floats, first: Floats, second: Floats) -> Floats:
    """Return the derivative of the sum of cells times both ranks, by each cell."""
    own = first[:, None] * second[None, :]
    by_row = _through_ranks(cells @ second)[:, None]
    by_column = _through_ranks(first @ cells)[None, :]
    return np.asarray(own + by_row + by_column, np.float64)


def _unknown() -> Value:
    nan = float("nan")
    return Value(nan, nan, nan, nan)
