"""Euclidean projection onto the probability simplex, by which tables are made non-negative.

The procedure Norm-Sub converges to it: set negative cells to 0, subtract the same amount from
every positive cell so that the sum is 1 again, and repeat.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def project(tables: Floats) -> Floats:
    """Return the nearest distribution to every row.

    Args:
        tables: shape (rows, cells), finite numbers with any sign and sum.

    Returns:
        For each row, the distribution with the smallest Euclidean distance, in the same shape.

    Source: Held, Wolfe and Crowder 1974, the variant that sorts. Cost O(rows · cells log cells).
    """
    cells = tables.shape[-1]
    # `kept` cells stay positive; `shift` is subtracted from each of them.
    descending = np.sort(tables, axis=-1)[:, ::-1]
    excess = np.cumsum(descending, axis=-1) - 1.0
    kept = np.count_nonzero(descending * np.arange(1, cells + 1) > excess, axis=-1)
    shift = np.take_along_axis(excess, kept[:, None] - 1, axis=-1) / kept[:, None]
    nearest: Floats = np.maximum(tables - shift, 0.0)
    return nearest
