"""Mutual information and conditional probabilities of a table."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def mutual_information(table: Floats) -> float:
    """Return the mutual information of two attributes in nats: 0 when independent.

    Args:
        table: shape (r, s), non-negative, any positive sum.

    Returns:
        At least 0. Noise adds to it: it has to be read beside a test of independence.
    """
    cells = np.asarray(table, np.float64)
    if cells.sum() <= 0.0:
        return 0.0
    cells = cells / cells.sum()
    expected = np.outer(cells.sum(axis=1), cells.sum(axis=0))
    seen = cells > 0.0
    return max(float((cells[seen] * np.log(cells[seen] / expected[seen])).sum()), 0.0)


def conditional(table: Floats, given: int) -> Floats:
    """Return the distribution of the other attributes for every value of one.

    Args:
        table: shape (r_1, ..., r_k), non-negative.
        given: axis of the attribute that is known.

    Returns:
        The same shape; sums to 1 over the other axes, or is uniform there for a value that does
        not occur.
    """
    cells = np.asarray(table, np.float64)
    others = tuple(axis for axis in range(cells.ndim) if axis != given)
    known = cells.sum(axis=others, keepdims=True)
    even = 1.0 / (cells.size // cells.shape[given])
    shares: Floats = np.where(known > 0.0, cells / np.where(known > 0.0, known, 1.0), even)
    return shares
