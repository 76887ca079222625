"""Log-linear tables of binary attributes, several at once, and their moments.

``p(x) = exp(sum_S lambda_S chi_S(x)) / Z``, with the parity chi_S(x) the product of the signs of S.
A table is a matrix: cells of the first half of the attributes by cells of the second half. A parity
is the product of one parity of each half, so energies and moments are products of small matrices.
Tables have single precision: no moment is estimated to seven digits.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np

from estimators.domain import Attributes
from estimators.noise_aware.arrays import Floats, Singles
from estimators.numerics.hadamard import transform
from estimators.numerics.subsets import sets_up_to


class Parities:
    """The parities of all sets of up to ``order`` of d attributes.

    Attributes:
        sets: see `features.sets_up_to`.
    """

    def __init__(self, d: int, order: int) -> None:
        """Prepare both halves; cost O(2^(d/2) d^order)."""
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
        """Return ``sum_S weights_S chi_S(x)``: shape (batch, sets) to (batch, rows, columns)."""
        shape = (len(weights), self._first.shape[1], self._second.shape[1])
        grid = np.zeros(shape, np.float32)
        grid[:, self._row, self._column] = weights
        return np.asarray(self._first @ grid @ self._to_second)

    def tables(self, weights: Floats) -> Singles:
        """Return tables that sum to 1: shape (batch, sets) to (batch, rows, columns)."""
        table = self.energy(weights)
        table -= table.max(axis=(1, 2), keepdims=True)
        np.exp(table, out=table)
        table /= table.sum(axis=(1, 2), keepdims=True)
        return table

    def moments(self, tables: Singles) -> Floats:
        """Return all moments: shape (batch, rows, columns) to (batch, sets)."""
        grid = self._to_first @ (tables @ self._second)
        return grid[:, self._row, self._column].astype(np.float64)

    def slopes(self, tables: Singles, by: int | None = None) -> tuple[Floats, Floats]:
        """Return moments and their derivatives by the first ``by`` weights (None: all).

        Shapes (batch, sets) and (batch, sets, by). Cost: O(batch (2^d d + sets by)).
        """
        theta = transform(tables.reshape(len(tables), -1)).astype(np.float64)
        own = theta[:, self.sets.index]
        return own, theta[:, self.sets.crossed[:, :by]] - own[:, :, None] * own[:, None, :by]


class PairParities(Parities):
    """Parities of order two, with a third of the work: only pairs contain signs of both halves."""

    def __init__(self, d: int) -> None:
        """Prepare both halves and the pairs that cross them."""
        super().__init__(d, 2)
        half = d // 2
        one = [i for i, s in enumerate(self.sets.members) if max(s) < half]
        two = [i for i, s in enumerate(self.sets.members) if min(s) >= half]
        both = [i for i, s in enumerate(self.sets.members) if min(s) < half <= max(s)]
        self._one, self._two = np.array(one, np.intp), np.array(two, np.intp)
        self._both = np.array(both, np.intp).reshape(half, d - half)
        self._own_first = self._first[:, self._row[self._one]]
        self._own_second = self._second[:, self._column[self._two]]
        self._signs_first = self._first[:, 1 : half + 1]
        self._signs_second = self._second[:, 1 : d - half + 1]
        ones = np.ones((len(self._second), 1), np.float32)
        self._meeting = np.hstack([self._signs_second, ones])

    def energy(self, weights: Floats) -> Singles:
        """Return the same as `Parities.energy`."""
        light = weights.astype(np.float32)
        first = light[:, self._one] @ self._own_first.T
        second = light[:, self._two] @ self._own_second.T
        left = np.empty((len(light), first.shape[1], self._signs_second.shape[1] + 2), np.float32)
        left[:, :, :-2] = self._signs_first @ light[:, self._both]
        left[:, :, -2] = first
        left[:, :, -1] = 1.0
        right = np.empty((len(light), left.shape[2], second.shape[1]), np.float32)
        right[:, :-2] = self._signs_second.T
        right[:, -2] = 1.0
        right[:, -1] = second
        return np.asarray(left @ right)

    def moments(self, tables: Singles) -> Floats:
        """Return the same as `Parities.moments`."""
        meeting = tables @ self._meeting
        out = np.empty((len(tables), len(self.sets.members)))
        out[:, self._both] = self._signs_first.T @ meeting[:, :, :-1]
        out[:, self._one] = meeting[:, :, -1] @ self._own_first
        out[:, self._two] = tables.sum(axis=1) @ self._own_second
        return out


def _signs(d: int, order: int) -> tuple[Singles, dict[Attributes, int]]:
    """Return parities of up to ``order`` of d attributes, that of the empty set first.

    Shape (cells, sets), and the column of each set.
    """
    cells = np.arange(1 << d)
    sign = 1 - 2 * ((cells[:, None] >> np.arange(d)[::-1]) & 1)
    members = [s for o in range(order + 1) for s in combinations(range(d), o)]
    table = np.stack([sign[:, list(s)].prod(axis=1) for s in members], axis=1)
    return table.astype(np.float32), {s: i for i, s in enumerate(members)}
