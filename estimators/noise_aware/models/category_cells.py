"""Log-linear tables of categorical attributes, several at once, and their moments.

``p(x) = exp(sum_t lambda_t h_t(x)) / Z``. A term t is a contrast of one attribute or the product of
contrasts of two; contrasts of r labels are orthogonal, of mean 0 and mean square 1 over the labels
(`input.correlated.contrast_codes`). A table is a matrix: cells of the first attributes by cells of
the others. So energies and moments are products of small matrices. Tables have single precision: no
moment is estimated to seven digits.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import combinations
from math import log, prod

import numpy as np

from estimators.noise_aware.arrays import Floats, Indices, Singles
from estimators.noise_aware.input.correlated import contrast_codes
from estimators.numerics.contraction import adding


class CategoryCells:
    """The terms of all sets of one and two attributes.

    Terms of single attributes come first, one attribute after another; then those of pairs in
    lexicographic order, each with the contrasts of its second attribute fastest.

    Attributes:
        cardinalities: numbers of labels, at least two attributes.
        codes: per attribute its contrasts, shape (labels, labels - 1).
        terms: number of terms.
        singles: per attribute the positions of its terms.
        pairs: per pair of attributes the positions of its terms.
    """

    def __init__(self, cardinalities: Sequence[int]) -> None:
        """Divide the attributes into two parts with about as many cells each."""
        self.cardinalities = tuple(cardinalities)
        self.codes = [contrast_codes(r) for r in cardinalities]
        widths = [r - 1 for r in cardinalities]
        ends = np.cumsum(widths).tolist()
        self.singles = [slice(e - w, e) for e, w in zip(ends, widths, strict=True)]
        self.pairs: dict[tuple[int, int], slice] = {}
        self.terms = ends[-1]
        for i, j in combinations(range(len(widths)), 2):
            self.pairs[i, j] = slice(self.terms, self.terms + widths[i] * widths[j])
            self.terms = self.pairs[i, j].stop
        self.half = _middle(self.cardinalities)
        first, second = range(self.half), range(self.half, len(widths))
        self._first, self._second = _Part(self, first), _Part(self, second)
        self._crossed = np.concatenate(
            [np.concatenate([self._places(i, j) for j in second], axis=1) for i in first]
        )  # (linear terms of the first part, those of the second)

    def _places(self, i: int, j: int) -> Indices:
        """Return the positions of a pair's terms: shape (contrasts of i, contrasts of j)."""
        own = self.pairs[i, j]
        return np.arange(own.start, own.stop).reshape(len(self.codes[i][0]), -1)

    def energy(
        self, weights: Floats, out: Singles | None = None, constant: Floats | None = None
    ) -> Singles:
        """Return ``sum_t weights_t h_t(x)``: shape (batch, terms) to (batch, rows, columns).

        ``constant``, shape (batch,), is added to all cells. ``out`` is an array for the result, as
        new large arrays cost as much as the product.
        """
        first, second, own = self._first, self._second, weights.astype(np.float32)
        linear = second.linear.shape[1]
        left = np.empty((len(own), len(first.all), linear + 2), np.float32)
        np.matmul(first.linear, own[:, self._crossed], out=left[:, :, :linear])
        left[:, :, linear] = own[:, first.terms] @ first.all.T
        left[:, :, linear + 1] = 1.0
        if constant is not None:
            left[:, :, linear] += constant[:, None]
        right = np.empty((len(own), linear + 2, len(second.all)), np.float32)
        right[:, :linear] = second.linear.T
        right[:, linear] = 1.0
        right[:, linear + 1] = own[:, second.terms] @ second.all.T
        return np.asarray(np.matmul(left, right, out=out))

    def tables(self, weights: Floats, out: Singles | None = None) -> Singles:
        """Return tables of sum 1: (batch, terms) to (batch, rows, columns).

        Weights that are too large for numbers of single precision give a table of zeros.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            table = self.energy(weights, out)
            table -= table.max(axis=(1, 2), keepdims=True)
            np.exp(table, out=table)
            # A product of matrices adds rows up faster than `sum`.
            total = (table @ np.ones(table.shape[2], np.float32)).sum(axis=1)
            table *= (1.0 / total)[:, None, None]
        table[~np.isfinite(total)] = 0.0
        return table

    def moments(self, tables: Singles) -> Floats:
        """Return the means of all terms: shape (batch, rows, columns) to (batch, terms)."""
        first, second = self._first, self._second
        out = np.empty((len(tables), self.terms))
        out[:, first.terms] = tables.sum(axis=2) @ first.all
        out[:, second.terms] = tables.sum(axis=1) @ second.all
        out[:, self._crossed] = first.linear.T @ (tables @ second.linear)
        return out

    def slopes(self, tables: Singles) -> tuple[Floats, Floats]:
        """Return moments and their derivatives by the weights, the covariances of the terms.

        Shapes (batch, terms) and (batch, terms, terms). Cost: O(batch (terms^2 + cells c^2)) for c
        linear terms of each part.
        """
        theta = self.moments(tables)
        slope = np.stack([self._second_moments(table) for table in tables.astype(np.float64)])
        slope -= theta[:, :, None] * theta[:, None, :]
        return theta, slope

    def _second_moments(self, table: Floats) -> Floats:
        """Return the mean products of all terms: shape (rows, columns) to (terms, terms)."""
        one, two, crossed = self._first, self._second, self._crossed.ravel()
        a, b = self._crossed.shape
        out = np.empty((self.terms, self.terms))

        def put(rows: Indices, columns: Indices, block: Floats) -> None:
            out[np.ix_(rows, columns)] = block
            out[np.ix_(columns, rows)] = block.T

        put(one.terms, one.terms, one.all.T @ (table.sum(axis=1)[:, None] * one.all))
        put(two.terms, two.terms, two.all.T @ (table.sum(axis=0)[:, None] * two.all))
        put(one.terms, two.terms, one.all.T @ table @ two.all)
        by_two = one.products.T @ (table @ two.linear)  # (terms a, b)
        put(one.terms, crossed, by_two.reshape(one.terms.size, a * b))
        by_one = two.products.T @ (table.T @ one.linear)  # (terms b, a)
        by_one = by_one.reshape(two.terms.size, b, a).transpose(0, 2, 1)
        put(two.terms, crossed, by_one.reshape(two.terms.size, a * b))
        both = one.products[:, : a * a].T @ (table @ two.products[:, : b * b])
        both = both.reshape(a, a, b, b).transpose(0, 2, 1, 3)
        put(crossed, crossed, both.reshape(a * b, a * b))
        return out

    def adding(self, attributes: Sequence[int]) -> tuple[Singles, Singles]:
        """Return matrices that sum rows and columns to the cells over ``attributes``.

        Shapes (cells of those in the first part, rows) and (columns, cells of the others).
        """
        half = self.half
        rows = adding(self.cardinalities[:half], tuple(i for i in attributes if i < half))
        others = tuple(i - half for i in attributes if i >= half)
        return rows, adding(self.cardinalities[half:], others).T


class _Part:
    """The terms of one part of the attributes, at the cells of that part.

    Attributes:
        terms: positions of the terms of one or two attributes of the part: single ones first.
        all: shape (cells, terms of the part), values of those terms.
        linear: shape (cells, terms of single attributes).
    """

    def __init__(self, cells: CategoryCells, members: range) -> None:
        sizes = [cells.cardinalities[i] for i in members]
        labels = dict(zip(members, np.indices(sizes).reshape(len(sizes), -1), strict=True))
        values = {i: cells.codes[i][labels[i]] for i in members}
        places = [np.arange(cells.terms)[cells.singles[i]] for i in members]
        columns = [values[i] for i in members]
        for i, j in combinations(members, 2):
            places.append(np.arange(cells.terms)[cells.pairs[i, j]])
            columns.append(_products(values[i], values[j]))
        self.terms = np.concatenate(places)
        self.all = np.concatenate(columns, axis=1).astype(np.float32)
        count = sum(value.shape[1] for value in values.values())
        self.linear = self.all[:, :count].copy()

    @cached_property
    def products(self) -> Floats:
        """Products of each term with each linear one: shape (cells, terms of the part * linear)."""
        return _products(self.all.astype(np.float64), self.linear.astype(np.float64))


def _products(first: Floats, second: Floats) -> Floats:
    """Return products of columns, the second ones fastest: shape (rows, columns * columns)."""
    return np.asarray((first[:, :, None] * second[:, None, :]).reshape(len(first), -1))


def _middle(cardinalities: Sequence[int]) -> int:
    """Return the number of attributes in the first part of the most even division in two."""
    whole = log(prod(cardinalities))
    return min(
        range(1, len(cardinalities)),
        key=lambda half: abs(2.0 * log(prod(cardinalities[:half])) - whole),
    )
