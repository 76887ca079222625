"""Standard errors of marginals that are pooled from many overlapping views.

The interaction of an attribute set A is estimated from every view S that contains A, with weights
proportional to ``kappa_S = precision_S / cells_S``. A marginal over T is the sum of the
interactions of its subsets. So the weight of a view's cell in a cell t of T depends only on where
the two agree, and exact variances need no matrix over all cells (docs/methods/calm.md).

Three things are approximate: frequencies inside the variances are the published ones, interactions
that no view holds count as known to be 0 (`unmodelled` has their size), and non-negativity, which
only shrinks errors, is ignored.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import combinations

import numpy as np

from calmstream.estimators.arrays import Floats
from calmstream.estimators.domain import Attributes
from calmstream.estimators.mechanisms.base import Covariance


class Pooled:
    """Variances of marginals over views, each with its precision as of `consistency.harmonise`."""

    def __init__(
        self,
        views: Sequence[Attributes],
        cardinalities: Sequence[int],
        covariances: Sequence[Covariance],
        precision: Floats,
    ) -> None:
        self._order, self._views = views, [frozenset(view) for view in views]
        self._cardinalities, self._covariances = cardinalities, covariances
        self._kappa = precision / [c.diagonal.size for c in covariances] if views else precision
        # The sum of the kappas of the views that hold each attribute set.
        self._mass: dict[Attributes, float] = {}
        for view, own in zip(views, self._kappa, strict=True):
            for subset in subsets(view):
                self._mass[subset] = self._mass.get(subset, 0.0) + float(own)

    def variance(self, attributes: Attributes) -> Floats:
        """Return the variance of every cell over ``attributes``; 0 where no view holds any."""
        shape = self._shape(attributes)
        total = np.zeros(shape)
        wanted = frozenset(attributes)
        meeting: dict[Attributes, list[int]] = {}
        for number, view in enumerate(self._views):
            if view & wanted:
                meeting.setdefault(tuple(sorted(view & wanted)), []).append(number)
        for common, numbers in meeting.items():
            part = self._part(common, numbers) / total.size**2
            kept = [self._cardinalities[i] if i in common else 1 for i in attributes]
            total += part.reshape(kept)
        return total.ravel()

    def covariance(self, attributes: Attributes) -> Floats:
        """Return the covariance of the cells, for small tables: O(meeting views · cells^2)."""
        shape = self._shape(attributes)
        grid = np.indices(shape).reshape(len(shape), -1)
        cells = grid.shape[1]
        total = np.zeros((cells, cells))
        wanted = frozenset(attributes)
        for number, view in enumerate(self._views):
            common = tuple(sorted(view & wanted))
            if not common:
                continue
            summed, columns = self._summed(number, common)
            diagonal, factors = summed.ravel(), columns.reshape(summed.size, -1)
            within = [grid[attributes.index(i)] for i in common]
            weight = self._operator(common)[np.ravel_multi_index(within, self._shape(common))]
            known = weight @ factors
            total += self._kappa[number] ** 2 * ((weight * diagonal) @ weight.T - known @ known.T)
        return total / cells**2

    def _operator(self, common: Attributes) -> Floats:
        """Return the weight of cell z of a view's projection in cell t over ``common``: [t, z]."""
        cells = np.indices(self._shape(common)).reshape(len(common), -1)
        agrees = np.zeros((cells.shape[1], cells.shape[1]), np.int64)
        for row in cells:
            agrees = agrees * 2 + (row[:, None] == row)
        return self._weights(common)[agrees]

    def _weights(self, common: Attributes) -> Floats:
        return agreement_weights(self._shape(common), [self._mass[a] for a in subsets(common)])

    def _summed(self, number: int, common: Attributes) -> tuple[Floats, Floats]:
        """Return diagonal and factors of a view's covariance, summed over all but ``common``."""
        order, own = self._order[number], self._covariances[number]
        full, axes = self._shape(order), tuple(j for j, i in enumerate(order) if i not in common)
        factors = own.factors.reshape(*full, -1)
        return own.diagonal.reshape(full).sum(axis=axes), factors.sum(axis=axes)

    def _shape(self, attributes: Attributes) -> tuple[int, ...]:
        return tuple(self._cardinalities[i] for i in attributes)

    def _part(self, common: Attributes, numbers: list[int]) -> Floats:
        """Return the variance from the views that share exactly ``common``, times squared cells."""
        weight = self._weights(common)
        diagonal = np.zeros(self._shape(common))
        columns = []
        for number in numbers:
            kappa, (own, factors) = self._kappa[number], self._summed(number, common)
            diagonal += kappa**2 * own
            columns.append(kappa * factors)
        spread = _by_agreement(np.square(weight), diagonal[..., None])[..., 0]
        known = _by_agreement(weight, np.concatenate(columns, axis=-1))
        return np.asarray(np.maximum(spread - np.square(known).sum(axis=-1), 0.0))


@lru_cache(maxsize=1 << 14)
def subsets(attributes: Attributes) -> tuple[Attributes, ...]:
    """Return all subsets in the order of binary numbers, first attribute the highest bit."""
    count = len(attributes)
    return tuple(
        tuple(a for j, a in enumerate(attributes) if number >> (count - 1 - j) & 1)
        for number in range(1 << count)
    )


def agreement_weights(shape: tuple[int, ...], mass: Sequence[float]) -> Floats:
    """Return a cell's weight by where it agrees with the query's cell: shape (2^attributes,).

    ``sum over non-empty A of cells_A / mass_A · prod_{i in A} ([i agrees] - 1 / r_i)``.
    """
    cells = _kron([np.array([[1.0, float(r)]]) for r in shape])[0]
    contrast = _kron([np.array([[1.0, 1.0], [-1.0 / r, 1.0 - 1.0 / r]]) for r in shape])
    scale = cells / np.asarray(mass)
    scale[0] = 0.0
    return np.asarray(scale @ contrast)


def _by_agreement(weight: Floats, values: Floats) -> Floats:
    """Return ``out[t] = sum_z weight[where z and t agree] · values[z]``."""
    axes = values.ndim - 1
    moebius = _kron([np.array([[1.0, 0.0], [-1.0, 1.0]])] * axes) @ weight
    out = np.zeros_like(values)
    for count in range(axes + 1):
        for kept in combinations(range(axes), count):
            number = sum(1 << (axes - 1 - j) for j in kept)
            others = tuple(j for j in range(axes) if j not in kept)
            out += moebius[number] * values.sum(axis=others, keepdims=True)
    return out


def _kron(factors: Sequence[Floats]) -> Floats:
    out: Floats = np.ones((1, 1))
    for factor in factors:
        out = np.asarray(np.kron(out, factor))
    return out
