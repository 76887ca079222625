"""Log-linear tables of binary attributes, several at once, and their moments.

``p(x) = exp(sum_S lambda_S chi_S(x)) / Z``, with the parity chi_S(x) the product of the signs of S.
A table is a matrix: cells of the first half of the attributes by cells of the second half. A parity
is the product of one parity of each half, so energies and moments are products of small matrices.
Tables have single precision: no moment is estimated to seven digits.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np

from calmstream.estimators.domain import Attributes
from calmstream.estimators.noise_aware.arrays import Floats, Singles
from calmstream.estimators.numerics.hadamard import transform
from calmstream.estimators.numerics.subsets import sets_up_to

SAFE_ENERGY = 40.0
"""Up to this absolute energy, sums of exp over 2^16 cells are far from the limits of single
precision."""


class Parities:
    """The parities of all sets of up to ``order`` of d attributes.

    A set is *low* if at most order / 2 of its attributes are in the second half. Other sets are
    *high*; at most (order - 1) / 2 of theirs are in the first half. So each kind needs few parities
    of one half.

    Attributes:
        sets: see `features.sets_up_to`.
    """

    def __init__(self, d: int, order: int) -> None:
        """Prepare both halves; cost O(2^(d/2) d^order)."""
        self.sets = sets_up_to(d, order)
        half, members = d // 2, self.sets.members
        self._first, rows = signs(half, order)
        second, columns = signs(d - half, order)
        row = np.array([rows[tuple(i for i in s if i < half)] for s in members])
        column = np.array([columns[tuple(i - half for i in s if i >= half)] for s in members])
        split = sum(len(s) <= order // 2 for s in columns)
        few = sum(len(s) <= (order - 1) // 2 for s in rows)
        low, high = np.nonzero(column < split)[0], np.nonzero(column >= split)[0]
        self._low, self._high = (
            (low, row[low], column[low]),
            (high, row[high], column[high] - split),
        )
        self._second_low, self._second_high = second[:, :split].copy(), second[:, split:].copy()
        self._first_low = self._first[:, :few].copy()

    def energy(
        self, weights: Floats, out: Singles | None = None, constant: Floats | None = None
    ) -> Singles:
        """Return ``sum_S weights_S chi_S(x)``: shape (batch, sets) to (batch, rows, columns).

        ``constant``, shape (batch,), is added to all cells: it is the weight of the empty set.
        ``out`` is an array for the result, as new large arrays cost as much as the product.
        """
        batch, few = len(weights), self._first_low.shape[1]
        by_low = np.zeros((batch, self._first.shape[1], self._second_low.shape[1]), np.float32)
        by_high = np.zeros((batch, few, self._second_high.shape[1]), np.float32)
        for grid, (sets, row, column) in ((by_low, self._low), (by_high, self._high)):
            grid[:, row, column] = weights[:, sets]
        if constant is not None:
            by_low[:, 0, 0] = constant
        left = np.empty((batch, len(self._first), by_low.shape[2] + few), np.float32)
        left[:, :, :-few], left[:, :, -few:] = self._first @ by_low, self._first_low
        right = np.empty((batch, left.shape[2], len(self._second_low)), np.float32)
        right[:, :-few], right[:, -few:] = self._second_low.T, by_high @ self._second_high.T
        return np.asarray(np.matmul(left, right, out=out))

    def tables(self, weights: Floats) -> Singles:
        """Return tables that sum to 1: shape (batch, sets) to (batch, rows, columns)."""
        table = self.energy(weights)
        large = np.abs(weights).sum(axis=1) > SAFE_ENERGY
        if large.any():
            table[large] -= table[large].max(axis=(1, 2), keepdims=True)
        np.exp(table, out=table)
        # A product of matrices adds rows up faster than `sum`.
        total = (table @ np.ones(table.shape[2], np.float32)).sum(axis=1)
        table *= (1.0 / total)[:, None, None]
        return table

    def compact(self, weights: Floats) -> Singles:
        """Return an array, a row for each chain, from which `expand` makes the tables.

        A row of zeros stands for weights that are too large for a table.
        """
        return self.tables(weights)

    def expand(self, compact: Singles, out: Singles | None = None) -> Singles:  # noqa: ARG002
        """Return the tables of compact ones, in ``out`` if it is given and they are new."""
        return compact

    def moments(self, tables: Singles) -> Floats:
        """Return all moments: shape (batch, rows, columns) to (batch, sets)."""
        by_low = self._first.T @ (tables @ self._second_low)
        by_high = (self._first_low.T @ tables) @ self._second_high
        out = np.empty((len(tables), len(self.sets.members)))
        for grid, (sets, row, column) in ((by_low, self._low), (by_high, self._high)):
            out[:, sets] = grid[:, row, column]
        return out

    def slopes(self, tables: Singles, by: int | None = None) -> tuple[Floats, Floats]:
        """Return moments and their derivatives by the first ``by`` weights (None: all).

        Shapes (batch, sets) and (batch, sets, by). Cost: O(batch (2^d d + sets by)).
        """
        theta = transform(tables.reshape(len(tables), -1))
        own = theta[:, self.sets.index].astype(np.float64)
        slope = theta[:, self.sets.crossed[:, :by]].astype(np.float64)
        slope -= own[:, :, None] * own[:, None, :by]
        return own, slope


def signs(d: int, order: int) -> tuple[Singles, dict[Attributes, int]]:
    """Return parities of up to ``order`` of d attributes, that of the empty set first.

    Shape (cells, sets), and the column of each set.
    """
    cells = np.arange(1 << d)
    sign = 1 - 2 * ((cells[:, None] >> np.arange(d)[::-1]) & 1)
    members = [s for o in range(order + 1) for s in combinations(range(d), o)]
    table = np.stack([sign[:, list(s)].prod(axis=1) for s in members], axis=1)
    return table.astype(np.float32), {s: i for i, s in enumerate(members)}
