"""Euclidean projection onto the probability simplex, to which the procedure Norm-Sub converges."""

from __future__ import annotations

import numpy as np

from calmstream.estimators.arrays import Floats


def project(tables: Floats) -> Floats:
    """Return the nearest distribution to every row of finite numbers: shape (..., cells).

    Source: Held, Wolfe and Crowder 1974, the variant that sorts. Cost O(rows · cells log cells).
    """
    cells = tables.shape[-1]
    # `kept` cells stay positive; `shift` is subtracted from each of them.
    descending = np.sort(tables, axis=-1)[..., ::-1]
    excess = np.cumsum(descending, axis=-1) - 1.0
    kept = np.count_nonzero(descending * np.arange(1, cells + 1) > excess, axis=-1)
    shift = np.take_along_axis(excess, kept[..., None] - 1, axis=-1) / kept[..., None]
    nearest: Floats = np.maximum(tables - shift, 0.0)
    return nearest
