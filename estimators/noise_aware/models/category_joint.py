"""The joint distribution of a few categorical attributes, from draws of the log-linear model.

The model has the interactions of pairs of attributes, and those of triples where views hold them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from calmstream.estimators.domain import Attributes
from calmstream.estimators.noise_aware.arrays import Floats, Singles
from calmstream.estimators.noise_aware.input.features import Features
from calmstream.estimators.noise_aware.input.statistics import MOST_PRECISE, Statistics
from calmstream.estimators.noise_aware.models.category_cells import CategoryCells
from calmstream.estimators.noise_aware.models.category_weights import CategoryWeights
from calmstream.estimators.noise_aware.models.joint import Moments
from calmstream.estimators.numerics.hamiltonian import draw
from calmstream.estimators.numerics.subsets import elementary

MAX_CELLS, MAX_TERMS = 1 << 14, 400
"""Largest joint table, and most log-linear weights: a fit within a second."""

MAX_TERMS_OF_TRIPLES = 600
"""Most log-linear weights where triples have some."""

CHAINS = 8

SWEEPS, SWEEPS_OF_TRIPLES = (25, 50), (15, 30)
"""Dropped and kept sweeps of each chain, without and with weights of triples; a sweep computes some
6 tables."""

MOST_KEPT = 1 << 22
"""Approximate number of cells of all draws that are kept as tables: 16 MB."""


@dataclass(frozen=True, eq=False)
class CategoryJoint:
    """Posterior of the joint distribution; a table is a matrix as in `category_cells`."""

    features: Features
    cells: CategoryCells
    table: Floats  # (rows, columns): posterior mean
    moments: Floats  # (draws, terms): means of the terms
    drawn: Singles  # (some draws, rows, columns)

    @property
    def misses_orders(self) -> bool:
        """Whether its draws lack interactions of three attributes; see `WholeTable`."""
        return max(map(len, self.cells.sets)) < 3

    def marginal(self, attributes: Attributes) -> tuple[Floats, Floats]:
        """Return a table and the variance of each cell: shape of the cardinalities both."""
        table, drawn = self.drawn_of(attributes)
        return table, drawn.var(axis=0)

    def mean_of(self, attributes: Attributes) -> Floats:
        """Return a table's posterior mean: shape of the cardinalities."""
        rows, columns = self.cells.adding(attributes)
        shape = [self.features.cardinalities[i] for i in attributes]
        return np.asarray((rows @ self.table @ columns).reshape(shape), np.float64)

    def drawn_of(self, attributes: Attributes) -> tuple[Floats, Floats]:
        """Return a table and its posterior draws: shapes (*cardinalities), (draws, *that).

        Cost: O(draws cells) additions.
        """
        rows, columns = self.cells.adding(attributes)
        table, drawn = self.mean_of(attributes), np.asarray(rows @ self.drawn @ columns, np.float64)
        return table, drawn.reshape(-1, *table.shape)

    def first_two(self) -> tuple[Moments, Moments]:
        """Return the first and the second moments of the features; see `WholeTable`."""
        size, slices = self.features.size, self.features.slices
        one, two = (
            (np.zeros(size), np.zeros(size)),
            (np.zeros((size, size)), np.zeros((size, size))),
        )
        for own in self.cells.sets:
            if len(own) > 2:
                break
            where = [slices[i] for i in own]
            for found, values in zip(one if len(own) == 1 else two, self._of(own), strict=True):
                found[tuple(where)], found[tuple(where[::-1])] = values, values.T
        return one, two

    def third(self, attributes: Attributes) -> Moments:
        """Return the interaction of three attributes, an axis has features, and its variance.

        Where the model has no such interactions, the variance is 0: it does not move with them.
        """
        if attributes in self.cells.sets:
            return self._of(attributes)
        table = self.mean_of(attributes)
        mean = self.features.interactions(attributes, table)[1:, 1:, 1:]
        return mean, np.zeros_like(mean)

    def _of(self, own: Attributes) -> Moments:
        """Return the mean products of features of a set, an axis each, and their variances."""
        sides = [_side(self.cells.codes[i]) for i in own]
        drawn = self.moments[:, self.cells.sets[own]]
        drawn = _turned(drawn.reshape(-1, *(side.shape[1] for side in sides)), sides)
        return drawn.mean(axis=0), drawn.var(axis=0)


def serves(cardinalities: Sequence[int], order: int = 2) -> bool:
    """Return whether a domain is small enough for weights of sets of up to 2 or 3 attributes."""
    terms = sum(elementary([r - 1 for r in cardinalities], order)[1:])
    few = terms <= (MAX_TERMS if order == 2 else MAX_TERMS_OF_TRIPLES)
    return few and prod(cardinalities) <= MAX_CELLS and len(cardinalities) > 1


def fit(features: Features, statistics: Statistics) -> CategoryJoint:
    """Fit the log-linear model to a domain that `serves` accepts.

    Cost: some 450 tables of each chain, with triples 270, and the cube of the number of terms every
    sweep.
    """
    order = 3 if statistics.blocks and serves(features.cardinalities, 3) else 2
    cells = CategoryCells(features.cardinalities, order)
    estimates, precision = _of_terms(features, statistics, cells)
    valid = statistics.valid_means(features)
    margins = [features.margin(i, valid) for i in range(len(features.cardinalities))]
    random = np.random.default_rng(20181016)  # fixed: equal tallies give equal answers
    model = CategoryWeights(cells, estimates, precision, margins, CHAINS, random)
    total, moments, kept = np.zeros(1), [], []
    warm_up, sweeps = SWEEPS_OF_TRIPLES if order > 2 else SWEEPS
    step = max(sweeps * CHAINS * prod(features.cardinalities) // MOST_KEPT, 1)
    for number, tables in enumerate(draw(model, random, warm_up, sweeps)):
        total = total + tables.sum(axis=0, dtype=np.float64)
        moments.append(cells.moments(tables))
        if number % step == 0:
            kept.append(tables)
    drawn = np.concatenate(moments)
    return CategoryJoint(features, cells, total / total.sum(), drawn, np.concatenate(kept))


def _of_terms(
    features: Features, statistics: Statistics, cells: CategoryCells
) -> tuple[Floats, Floats]:
    """Return the estimates of all terms and their precisions: shape (terms,) both."""
    sides = [_side(code) for code in cells.codes]
    estimates, precision = np.zeros(cells.terms), np.zeros(cells.terms)
    for own, places in cells.sets.items():
        where = tuple(features.slices[i] for i in own)
        if len(own) == 1:
            value, known = statistics.means[where], statistics.mean_precision[where[0].start]
        elif len(own) == 2:
            known = statistics.product_precision[where[0].start, where[1].start]
            value = statistics.products[where]
        elif own in statistics.blocks:
            value, known = statistics.blocks[own]
        else:
            continue
        value = _turned(value, [sides[i].T for i in own])
        estimates[places], precision[places] = value.ravel(), known
    return estimates, np.minimum(precision, MOST_PRECISE)


def _turned(values: Floats, sides: Sequence[Floats]) -> Floats:
    """Multiply each of an array's last axes by a matrix, shape (new length, length)."""
    for axis, side in enumerate(sides, values.ndim - len(sides)):
        values = np.moveaxis(np.tensordot(values, side, (axis, 1)), -1, axis)
    return values


def _side(code: Floats) -> Floats:
    """Return the matrix from an attribute's contrasts to its features: (features, contrasts)."""
    return np.ones((1, 1)) if len(code) == 2 else code / np.sqrt(len(code))
