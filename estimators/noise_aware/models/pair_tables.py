"""Log-linear tables of pairs of binary attributes, as products of three small factors.

The attributes are divided into three parts a, b and c: a quarter, a quarter and half of them. As no
weight belongs to more than two attributes,

    p(a, b, c) = f(a, c) g(b, c) h(a, b),

where f holds the weights within a, within c and between them, g those within b and between b and c,
and h those between a and b. The three factors of 16 attributes have 8,448 cells, the table 65,536.
So the table takes two products for each cell, instead of an energy and its exponential.
"""

from __future__ import annotations

import numpy as np

from calmstream.estimators.noise_aware.arrays import Floats, Singles
from calmstream.estimators.noise_aware.models.parities import Parities, signs

LEAST_TOTAL = 1e-30
"""Least sum of a table whose factors have the maximum 1: its inverse can still be multiplied."""


class PairTables(Parities):
    """The parities of all sets of up to two of d attributes, with tables in compact form.

    A compact table has the cells of f, of g and of h, one after another. The largest of g at every
    c is 1, and that of h at every a, so that no product overflows; f is scaled so that the table
    sums to 1. Where weights are so large and contradict each other so much that single precision
    cannot express it, all cells are 0.
    """

    def __init__(self, d: int) -> None:
        """Prepare all parts; ``d`` is at least 2. Cost as that of `Parities`."""
        super().__init__(d, 2)
        half = d // 2
        a, b, c = half // 2, half - half // 2, d - half
        self._of_a, in_a = signs(a, 2)
        self._of_b, in_b = signs(b, 2)
        of_c, in_c = signs(c, 2)
        self._of_c = of_c.T.copy()
        self._linear_c = self._of_c[: 1 + c]
        self._linear_a = self._of_a[:, 1 : 1 + a].copy()
        self._linear_b = self._of_b[:, 1 : 1 + b].T.copy()
        shapes = ((len(in_a), len(in_c)), (len(in_b), 1 + c), (a, b))
        f, g, h = self._places = [np.full(shape, len(self.sets.members)) for shape in shapes]
        for number, members in enumerate(self.sets.members):
            own_a = tuple(i for i in members if i < a)
            own_b = tuple(i - a for i in members if a <= i < half)
            own_c = tuple(i - half for i in members if i >= half)
            if own_a and own_b:
                h[own_a[0], own_b[0]] = number
            elif own_b:
                g[in_b[own_b], in_c[own_c]] = number
            else:
                f[in_a[own_a], in_c[own_c]] = number
        self._shapes = ((1 << a, 1 << c), (1 << b, 1 << c), (1 << a, 1 << b))
        self._ends = np.cumsum([rows * columns for rows, columns in self._shapes]).tolist()

    def compact(self, weights: Floats) -> Singles:
        """Return the factors of the tables: shape (batch, sets) to (batch, cells of factors)."""
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            return self._compact(weights)

    def _compact(self, weights: Floats) -> Singles:
        # The weights and a zero, for the cells that stand for no set.
        own = np.zeros((len(weights), weights.shape[1] + 1), np.float32)
        own[:, :-1] = weights
        by_f, by_g, by_h = (own.take(places, axis=1) for places in self._places)
        out = np.empty((len(weights), self._ends[-1]), np.float32)
        f, g, h = self._split(out)
        np.matmul(self._of_a, by_f @ self._of_c, out=f)
        np.matmul(self._of_b, by_g @ self._linear_c, out=g)
        np.matmul(self._linear_a, by_h @ self._linear_b, out=h)
        for factor, axis in ((g, 1), (h, 2)):
            largest = factor.max(axis=axis, keepdims=True)
            np.subtract(factor, largest, out=factor)
            f += largest
        f -= f.max(axis=(1, 2), keepdims=True)
        np.exp(out, out=out)
        total = (f * (h @ g)).sum(axis=(1, 2), keepdims=True)
        f /= total
        out[~(total[:, 0, 0] > LEAST_TOTAL)] = 0.0
        return out

    def expand(self, compact: Singles, out: Singles | None = None) -> Singles:
        """Return the tables of factors: shape (batch, rows, columns)."""
        f, g, h = self._split(compact)
        batch, rows, columns = f.shape
        if out is None or len(out) != batch:
            out = np.empty((batch, h[0].size, columns), np.float32)
        tables = out.reshape(batch, rows, -1, columns)
        np.multiply(f[:, :, None], h[..., None], out=tables)
        np.multiply(tables, g[:, None], out=tables)
        return out

    def _split(self, compact: Singles) -> list[Singles]:
        """Return the factors as views: shapes (batch, a, c), (batch, b, c), (batch, a, b)."""
        parts = np.split(compact, self._ends[:-1], axis=1)
        return [part.reshape(-1, *shape) for part, shape in zip(parts, self._shapes, strict=True)]
