"""Log-linear tables of categorical attributes, several at once, and their moments.

``p(x) = exp(sum_t lambda_t h_t(x)) / Z``. A term t is a contrast of one attribute, or the product
of contrasts of two or three; contrasts of r labels are orthogonal, of mean 0 and mean square 1 over
the labels (`input.correlated.contrast_codes`). A table is a matrix: cells of the first attributes
by cells of the others. So energies and moments are products of small matrices. Tables have single
precision: no moment is estimated to seven digits.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import combinations, combinations_with_replacement
from math import log, prod
from typing import NamedTuple

import numpy as np

from calmstream.estimators.domain import Attributes
from calmstream.estimators.noise_aware.arrays import Floats, Indices, Singles
from calmstream.estimators.noise_aware.input.correlated import contrast_codes
from calmstream.estimators.numerics.contraction import adding
from calmstream.estimators.numerics.subsets import sets_up_to


class CategoryCells:
    """The terms of all sets of up to ``order`` attributes.

    Terms of single attributes come first, then those of pairs and triples. Sets of one size are in
    lexicographic order; in a set the contrasts of the last attribute vary fastest.

    Attributes:
        cardinalities: numbers of labels, at least two attributes.
        codes: per attribute its contrasts, shape (labels, labels - 1).
        sets: by set of attributes the positions of its terms.
        terms: number of terms.
    """

    def __init__(self, cardinalities: Sequence[int], order: int = 2) -> None:
        """Divide the attributes into two parts with about as many cells each; order is 2 or 3."""
        self.cardinalities = tuple(cardinalities)
        self.codes = [contrast_codes(r) for r in cardinalities]
        self.sets: dict[Attributes, slice] = {}
        self.terms = 0
        for own in sets_up_to(len(cardinalities), min(order, len(cardinalities))).members:
            self.sets[own] = slice(self.terms, self.terms + self._size(own))
            self.terms = self.sets[own].stop
        self.half = _middle(self.cardinalities)
        first = _Part(self, range(self.half), order)
        second = _Part(self, range(self.half, len(cardinalities)), order)
        # Terms of both parts: up to order - 1 attributes of the first part with one of the second,
        # and one of the first with two of the second.
        crossed = self._places(first.sets(1, order - 1), second.sets(1, 1))
        more = self._places(first.sets(1, 1), second.sets(2, order - 1))
        self._families = [
            _Family(first.columns(1, order), second.columns(0, 0), first.terms[:, None]),
            _Family(first.columns(0, 0), second.columns(1, order), second.terms[None]),
            _Family(first.columns(1, order - 1), second.columns(1, 1), crossed),
            _Family(first.columns(1, 1), second.columns(2, order - 1), more),
        ]

    def _places(self, first: Sequence[Attributes], second: Sequence[Attributes]) -> Indices:
        """Return the positions of the terms of unions of sets of both parts.

        Shape (terms of the first sets, terms of the second ones).
        """
        places = np.arange(self.terms)
        rows = [np.zeros((sum(map(self._size, first)), 0), np.intp)]
        for b in second:
            blocks = [places[self.sets[a + b]].reshape(-1, self._size(b)) for a in first]
            rows.append(np.concatenate(blocks))
        return np.concatenate(rows, axis=1)

    def _size(self, own: Attributes) -> int:
        return prod(self.cardinalities[i] - 1 for i in own)

    def energy(
        self, weights: Floats, out: Singles | None = None, constant: Floats | None = None
    ) -> Singles:
        """Return ``sum_t weights_t h_t(x)``: shape (batch, terms) to (batch, rows, columns).

        ``constant``, shape (batch,), is added to all cells. ``out`` is an array for the result, as
        new large arrays cost as much as the product.
        """
        own = weights.astype(np.float32)
        of_first, of_second, (left, right, crossed), (one, two, more) = self._families
        linear, single = right.shape[1], one.shape[1] if two.size else 0
        rows = np.empty((len(own), len(left), linear + 2 + single), np.float32)
        np.matmul(left, own[:, crossed], out=rows[:, :, :linear])
        rows[:, :, linear] = own[:, of_first.places[:, 0]] @ of_first.left.T
        rows[:, :, linear + 1] = 1.0
        rows[:, :, linear + 2 :] = one[:, :single]
        if constant is not None:
            rows[:, :, linear] += constant[:, None]
        columns = np.empty((len(own), linear + 2 + single, len(right)), np.float32)
        columns[:, :linear] = right.T
        columns[:, linear] = 1.0
        columns[:, linear + 1] = own[:, of_second.places[0]] @ of_second.right.T
        if single:
            np.matmul(own[:, more], two.T, out=columns[:, linear + 2 :])
        return np.asarray(np.matmul(rows, columns, out=out))

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
        of_first, of_second, (left, right, crossed), (one, two, more) = self._families
        out = np.empty((len(tables), self.terms))
        out[:, of_first.places[:, 0]] = tables.sum(axis=2) @ of_first.left
        out[:, of_second.places[0]] = tables.sum(axis=1) @ of_second.right
        out[:, crossed] = left.T @ (tables @ right)
        if two.size:
            out[:, more] = (one.T @ tables) @ two
        return out

    def slopes(self, tables: Singles) -> tuple[Floats, Floats]:
        """Return moments and their derivatives by the weights, the covariances of the terms.

        Shapes (batch, terms) and (batch, terms, terms). Cost: O(batch (terms^2 + cells c^2)) for c
        terms of a part that terms of both parts have.
        """
        theta = self.moments(tables)
        slope = np.stack([self._second_moments(table) for table in tables.astype(np.float64)])
        slope -= theta[:, :, None] * theta[:, None, :]
        return theta, slope

    def _second_moments(self, table: Floats) -> Floats:
        """Return the mean products of all terms: shape (rows, columns) to (terms, terms)."""
        out = np.empty((self.terms, self.terms))
        for a, b, left, right in self._pairs_of_families:
            # The smaller factor first: it leaves fewer columns for the larger one.
            narrow = left.shape[1] <= right.shape[1]
            block = (left.T @ table) @ right if narrow else left.T @ (table @ right)
            block = block.reshape(a.shape[0], b.shape[0], a.shape[1], b.shape[1])
            block = block.transpose(0, 2, 1, 3).reshape(a.size, b.size)
            out[np.ix_(a.ravel(), b.ravel())] = block
            out[np.ix_(b.ravel(), a.ravel())] = block.T
        return out

    @cached_property
    def _pairs_of_families(self) -> list[tuple[Indices, Indices, Floats, Floats]]:
        """Return for each two families their terms' places, and products of their columns."""
        found = [family for family in self._families if family.places.size]
        return [
            (a.places, b.places, _products(a.left, b.left), _products(a.right, b.right))
            for a, b in combinations_with_replacement(found, 2)
        ]

    def adding(self, attributes: Sequence[int]) -> tuple[Singles, Singles]:
        """Return matrices that sum rows and columns to the cells over ``attributes``.

        Shapes (cells of those in the first part, rows) and (columns, cells of the others).
        """
        half = self.half
        rows = adding(self.cardinalities[:half], tuple(i for i in attributes if i < half))
        others = tuple(i - half for i in attributes if i >= half)
        return rows, adding(self.cardinalities[half:], others).T


class _Family(NamedTuple):
    """Terms that are products of a column of the first part with one of the second."""

    left: Singles  # (rows, a)
    right: Singles  # (columns, b)
    places: Indices  # (a, b): positions of the terms


class _Part:
    """The sets of attributes of one part, and their terms at the cells of that part.

    Attributes:
        terms: positions of the terms of all sets, by size, in the order of `sets`.
    """

    def __init__(self, cells: CategoryCells, members: range, order: int) -> None:
        sizes = [cells.cardinalities[i] for i in members]
        labels = np.indices(sizes).reshape(len(sizes), -1)
        self._values: dict[Attributes, Floats] = {(): np.ones((labels.shape[1], 1))}
        for size in range(1, min(order, len(sizes)) + 1):
            for own in combinations(members, size):
                last = cells.codes[own[-1]][labels[own[-1] - members.start]]
                self._values[own] = _products(self._values[own[:-1]], last)
        places = np.arange(cells.terms)
        self.terms = np.concatenate([places[cells.sets[own]] for own in self.sets(1, order)])

    def sets(self, least: int, most: int) -> list[Attributes]:
        """Return the sets of ``least`` to ``most`` attributes, by size."""
        return [own for own in self._values if least <= len(own) <= most]

    def columns(self, least: int, most: int) -> Singles:
        """Return the terms of these sets at all cells: shape (cells, terms)."""
        found = [self._values[own] for own in self.sets(least, most)]
        nothing = np.zeros((len(self._values[()]), 0))
        return np.concatenate([nothing, *found], axis=1).astype(np.float32)


def _products(first: Floats | Singles, second: Floats | Singles) -> Floats:
    """Return products of columns, the second ones fastest: shape (rows, columns * columns)."""
    products = first[:, :, None] * second.astype(np.float64)[:, None, :]
    return np.asarray(products.reshape(len(first), -1))


def _middle(cardinalities: Sequence[int]) -> int:
    """Return the number of attributes in the first part of the most even division in two."""
    whole = log(prod(cardinalities))
    return min(
        range(1, len(cardinalities)),
        key=lambda half: abs(2.0 * log(prod(cardinalities[:half])) - whole),
    )
