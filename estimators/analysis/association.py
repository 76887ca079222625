"""Mutual information and conditional probabilities of a table."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def mutual_information(table: Floats) -> float:
    """Return the mutual information of two attributes in nats: 0 if they are independent.

    Noise increases it, so a test of independence should be read together with it.

    Args:
        table: shape (r, s), non-negative, any positive sum.
    """
    cells = np.asarray(table, np.float64)
    if cells.sum() <= 0.0:
        return 0.0
    cells = cells / cells.sum()
    expected = np.outer(cells.sum(axis=1), cells.sum(axis=0))
    positive = cells > 0.0
    ratio = cells[positive] / expected[positive]
    return max(float((cells[positive] * np.log(ratio)).sum()), 0.0)


def conditional(table: Floats, given: int) -> Floats:
    """Return the distribution of the other attributes for every value of one.

    Args:
        table: shape (r_1, ..., r_k), non-negative.

    Returns:
        A table of the same shape that sums to 1 over the other axes. For a value that does not
        occur, it is uniform over the other axes.
    """
    cells = np.asarray(table, np.float64)
    others = tuple(axis for axis in range(cells.ndim) if axis != given)
    sums = cells.sum(axis=others, keepdims=True)
    even = 1.0 / (cells.size // cells.shape[given])
    shares: Floats = np.where(sums > 0.0, cells / np.where(sums > 0.0, sums, 1.0), even)
    return shares
