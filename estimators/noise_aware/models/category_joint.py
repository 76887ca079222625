"""The joint distribution of a few categorical attributes, from draws of the log-linear model.

The model has the interactions of pairs of attributes only.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from estimators.domain import Attributes
from estimators.noise_aware.arrays import Floats, Singles
from estimators.noise_aware.input.features import Features
from estimators.noise_aware.input.statistics import MOST_PRECISE, Statistics
from estimators.noise_aware.models.category_cells import CategoryCells
from estimators.noise_aware.models.category_weights import CategoryWeights
from estimators.noise_aware.models.joint import Moments
from estimators.numerics.hamiltonian import draw

MAX_CELLS, MAX_TERMS = 1 << 14, 400
"""Largest joint table, and most log-linear weights: a fit within a second."""

WARM_UP, SWEEPS, CHAINS = 25, 50, 8
"""Dropped and kept sweeps of each chain, and chains; a sweep computes some 6 tables."""

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
        size, slices, cells = self.features.size, self.features.slices, self.cells
        one, two = (
            (np.zeros(size), np.zeros(size)),
            (np.zeros((size, size)), np.zeros((size, size))),
        )
        sides = [_side(code) for code in cells.codes]
        for i, own in enumerate(cells.singles):
            drawn = self.moments[:, own] @ sides[i].T
            one[0][slices[i]], one[1][slices[i]] = drawn.mean(axis=0), drawn.var(axis=0)
        for (i, j), own in cells.pairs.items():
            drawn = self.moments[:, own].reshape(-1, sides[i].shape[1], sides[j].shape[1])
            drawn = sides[i] @ drawn @ sides[j].T
            for found, values in zip(two, (drawn.mean(axis=0), drawn.var(axis=0)), strict=True):
                found[slices[i], slices[j]], found[slices[j], slices[i]] = values, values.T
        return one, two


def serves(features: Features) -> bool:
    """Return whether the domain is small enough; it has at least two attributes."""
    widths = np.array(features.cardinalities) - 1
    terms = widths.sum() + (widths.sum() ** 2 - np.square(widths).sum()) // 2
    cells = prod(features.cardinalities)
    return widths.size > 1 and cells <= MAX_CELLS and int(terms) <= MAX_TERMS


def fit(features: Features, statistics: Statistics) -> CategoryJoint:
    """Fit the log-linear model to a domain that `serves` accepts.

    Cost: some 450 tables of each chain, and the cube of the number of terms every sweep.
    """
    cells = CategoryCells(features.cardinalities)
    estimates, precision = _of_terms(features, statistics, cells)
    valid = statistics.valid_means(features)
    margins = [features.margin(i, valid) for i in range(len(features.cardinalities))]
    random = np.random.default_rng(20181016)  # fixed: equal tallies give equal answers
    model = CategoryWeights(cells, estimates, precision, margins, CHAINS, random)
    total, moments, kept = np.zeros(1), [], []
    step = max(SWEEPS * CHAINS * prod(features.cardinalities) // MOST_KEPT, 1)
    for number, tables in enumerate(draw(model, random, WARM_UP, SWEEPS)):
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
    for i, own in enumerate(cells.singles):
        where = features.slices[i]
        estimates[own] = sides[i].T @ statistics.means[where]
        precision[own] = statistics.mean_precision[where.start]
    for (i, j), own in cells.pairs.items():
        rows, columns = features.slices[i], features.slices[j]
        estimates[own] = (sides[i].T @ statistics.products[rows, columns] @ sides[j]).ravel()
        precision[own] = statistics.product_precision[rows.start, columns.start]
    return estimates, np.minimum(precision, MOST_PRECISE)


def _side(code: Floats) -> Floats:
    """Return the matrix from an attribute's contrasts to its features: (features, contrasts)."""
    return np.ones((1, 1)) if len(code) == 2 else code / np.sqrt(len(code))
