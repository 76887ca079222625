"""Log-linear tables of binary attributes, many side by side, and their moments.

``p(x) = exp(sum_S lambda_S chi_S(x)) / Z``, chi_S the parity of S: the product of the signs of its
attributes. A table is a matrix here, the cells of the first half of the attributes by those of the
second. As a parity is a product of one of either half, energies and moments are products of small
matrices: C(d/2, 2) numbers for each of 2^(d/2) rows, instead of a transform of 2^d cells. Tables
are single precision, which a float's seven digits allow: a moment is known to 1e-4 at best.
"""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from estimators.mechanisms.hadamard import transform
from estimators.noise_aware.walsh import sets_up_to

if TYPE_CHECKING:
    from estimators.domain import Attributes

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]


class Parities:
    """The parities of all sets of up to ``order`` of d attributes.

    Attributes:
        sets: see `walsh.sets_up_to`.
    """

    def __init__(self, d: int, order: int) -> None:
        """Lay out both halves; cost O(2^(d/2) d^order)."""
        self.sets = sets_up_to(d, order)
        half = d // 2
        self._first, rows = _signs(half, order)
        self._second, columns = _signs(d - half, order)
        members = self.sets.members
        self._row = np.array([rows[tuple(i for i in s if i < half)] for s in members])
        self._column = np.array([columns[tuple(i - half for i in s if i >= half)] for s in members])
        self._to_first = np.ascontiguousarray(self._first.T)
        self._to_second = np.ascontiguousarray(self._second.T)

    def energy(self, weights: Floats) -> Singles:
        """``sum_S weights_S chi_S(x)``: shape (batch, sets) to (batch, rows, columns)."""
        shape = (len(weights), self._first.shape[1], self._second.shape[1])
        laid = np.zeros(shape, np.float32)
        laid[:, self._row, self._column] = weights
        return np.asarray(self._first @ laid @ self._to_second)

    def tables(self, weights: Floats) -> Singles:
        """Tables that sum to 1: shape (batch, sets) to (batch, rows, columns)."""
        table = self.energy(weights)
        table -= table.max(axis=(1, 2), keepdims=True)
        np.exp(table, out=table)
        table /= table.sum(axis=(1, 2), keepdims=True)
        return table

    def moments(self, tables: Singles) -> Floats:
        """Sums of the tables times every parity: shape (batch, rows, columns) to (batch, sets)."""
        laid = self._to_first @ (tables @ self._second)
        return laid[:, self._row, self._column].astype(np.float64)

    def slopes(self, tables: Singles) -> tuple[Floats, Floats]:
        """Moments and their derivatives by the weights: (batch, sets) and (batch, sets, sets).

        Cost: O(batch (2^d d + sets^2)).
        """
        theta = transform(tables.reshape(len(tables), -1)).astype(np.float64)
        own = theta[:, self.sets.index]
        return own, theta[:, self.sets.crossed] - own[:, :, None] * own[:, None, :]


def _signs(d: int, order: int) -> tuple[Singles, dict[Attributes, int]]:
    """Parities of up to ``order`` of d attributes, the empty set's first: (cells, sets)."""
    cells = np.arange(1 << d)
    sign = 1 - 2 * ((cells[:, None] >> np.arange(d)[::-1]) & 1)
    members = [s for o in range(order + 1) for s in combinations(range(d), o)]
    table = np.stack([sign[:, list(s)].prod(axis=1) for s in members], axis=1)
    return table.astype(np.float32), {s: i for i, s in enumerate(members)}
