"""The interactions of a table: an orthonormal basis of functions of its cells.

An attribute of r labels has r - 1 orthogonal functions of mean 0 and mean square 1 over its labels.
A function of a table is a product of one of them, or of the constant 1, for each attribute; its
*interaction* is the set of attributes that contribute no constant, its coefficient theta the
expected value over the records: ``theta = Phi^T pi`` and ``pi = Phi theta / N`` for N cells.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import combinations

import numpy as np

from calmstream.estimators.arrays import Floats, Indices


@lru_cache(maxsize=256)
def functions(labels: int) -> Floats:
    """Return the constant 1 and Helmert's functions of one attribute: shape (labels, labels)."""
    out = np.zeros((labels, labels))
    out[:, 0] = 1.0
    for j in range(1, labels):
        out[:j, j] = 1.0
        out[j, j] = -j
        out[:, j] *= np.sqrt(labels / (j * (j + 1)))
    return out


@lru_cache(maxsize=256)
def contrasts(shape: tuple[int, ...]) -> Floats:
    """Return all functions of a table except the constant: shape (cells, cells - 1).

    Columns are numbered as the cells but the first: the index of an attribute is that of its
    function.
    """
    whole = np.ones((1, 1))
    for labels in shape:
        whole = np.asarray(np.kron(whole, functions(labels)), np.float64)
    return np.ascontiguousarray(whole[:, 1:])


@lru_cache(maxsize=4096)
def positions(shape: tuple[int, ...], axes: tuple[int, ...]) -> Indices:
    """Return the columns of `contrasts` that are functions of the attributes ``axes`` only."""
    grid = np.arange(int(np.prod(shape))).reshape(shape)
    chosen = grid[tuple(slice(None) if i in axes else 0 for i in range(len(shape)))]
    found: Indices = chosen.ravel()[1:] - 1
    return found


def own_positions(shape: tuple[int, ...], axes: tuple[int, ...]) -> Indices:
    """Return the columns of `contrasts` of exactly the interaction ``axes``."""
    grid = np.arange(int(np.prod(shape))).reshape(shape)
    chosen = grid[tuple(slice(1, None) if i in axes else 0 for i in range(len(shape)))]
    found: Indices = chosen.ravel() - 1
    return found


def interactions(attributes: int) -> list[tuple[int, ...]]:
    """Return all non-empty sets of positions below ``attributes``, small sets first."""
    sizes = range(1, attributes + 1)
    return [axes for size in sizes for axes in combinations(range(attributes), size)]
