"""Pooled estimates of interactions with the exact covariance of each view's table.

Estimates of different interactions from one view have correlated errors where the table is far from
even. Other views know some of these interactions better, so what they say about the errors corrects
the rest. This is generalised least squares, in three steps:

1. The covariance of each table is taken at a valid table near the first, simpler estimates.
2. *Shared* interactions, which several views hold, are solved for together.
3. A *private* interaction, which one view holds, moves with the error of the shared ones there.

Interactions are coefficients of orthogonal contrasts here, r - 1 of an attribute with r categories.
See noise-aware.md, section 2.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import combinations
from math import prod, sqrt

import numpy as np

from calmstream.estimators.domain import Attributes
from calmstream.estimators.mechanisms.base import Mechanism
from calmstream.estimators.noise_aware.arrays import Floats, Indices
from calmstream.estimators.noise_aware.input.features import Features
from calmstream.estimators.numerics.subsets import sets_up_to

MOST_CELLS = 64
"""With larger views the simpler estimates stay: noise of many cells hides what correlations say."""

MOST_SHARED = 1000
"""Maximum number of coefficients that are solved for together; the cost grows with the cube."""

MOST_NOISE = 50.0
"""Largest variance of a coefficient from one report on several attributes. Where all views have
more, errors of two coefficients have correlations below 1/7, which change variances by 2 %."""

LEAST_EVEN = 0.01
"""Weight of the even table in the table at which covariances are taken: no cell is empty."""


@dataclass(frozen=True, slots=True, eq=False)
class ViewEstimate:
    """The unbiased table of one view."""

    attributes: Attributes
    table: Floats  # (cells,), row-major
    mechanism: Mechanism
    reports: int


@dataclass(frozen=True, slots=True, eq=False)
class Near:
    """The first estimates, which say at which tables covariances are taken."""

    features: Features
    means: Floats  # (size,): first moments of valid margins
    products: Floats  # (size, size): second moments
    precision: Floats  # (size, size): inverse variances, 0 where there is no estimate
    _margins: dict[int, Floats] = field(default_factory=dict)
    _pairs: dict[tuple[int, int], Floats] = field(default_factory=dict)

    def tables(self, members: Sequence[Attributes]) -> Floats:
        """Return valid tables of sets of attributes of one shape: (sets, cells).

        They are products of margins plus interactions of pairs, which are shrunk by how far they
        exceed their noise (James and Stein).
        """
        features, first = self.features, members[0]
        shape = [features.cardinalities[i] for i in first]
        margins = [np.array([self._margin(own[a]) for own in members]) for a in range(len(first))]
        total = _outer(margins)
        for a, b in combinations(range(len(first)), 2):
            pairs = np.array([self._dependence(own[a], own[b]) for own in members])
            rest = [np.ones((1, 1)) if c in (a, b) else m for c, m in enumerate(margins)]
            wide = [shape[c] if c in (a, b) else 1 for c in range(len(shape))]
            total = total + _outer(rest) * pairs.reshape(-1, *wide)
        table = np.maximum(total.reshape(len(members), -1), 0.0)
        table /= table.sum(axis=1, keepdims=True)
        return np.asarray((1.0 - LEAST_EVEN) * table + LEAST_EVEN / table.shape[1])

    def _margin(self, i: int) -> Floats:
        if i not in self._margins:
            self._margins[i] = self.features.margin(i, self.means)
        return self._margins[i]

    def _dependence(self, i: int, j: int) -> Floats:
        """Return the pair's table less the product of its margins, shrunk: (r_i, r_j)."""
        if (i, j) in self._pairs:
            return self._pairs[i, j]
        features, a, b = self.features, self.features.slices[i], self.features.slices[j]
        found = self.products[a, b] - np.outer(self.means[a], self.means[b])
        free = (features.cardinalities[i] - 1) * (features.cardinalities[j] - 1)
        noise = free / max(float(self.precision[a.start, b.start]), 1e-300)
        gain = max(1.0 - noise / max(float(np.square(found).sum()), 1e-300), 0.0)
        left = features.codes[i] / features.cardinalities[i]
        right = features.codes[j] / features.cardinalities[j]
        self._pairs[i, j] = gain * (left @ found @ right.T)
        return self._pairs[i, j]


def _outer(margins: Sequence[Floats]) -> Floats:
    """Return the products of tables of one attribute, (sets or 1, r) each: (sets, *r)."""
    table = np.ones((1,))
    for margin in margins:
        table = table[..., None] * margin.reshape(len(margin), *[1] * (table.ndim - 1), -1)
    return table


@lru_cache(maxsize=256)
def contrasts(categories: int) -> Floats:
    """Return orthonormal vectors of sum 0, in columns: (r, r - 1); for a bit its sign, [[1]]."""
    r = categories
    if r == 2:
        return np.ones((1, 1))
    root, _ = np.linalg.qr(np.eye(r)[:, : r - 1] - 1.0 / r)
    return np.asarray(root, np.float64)


def contrast_codes(categories: int) -> Floats:
    """Return values of contrasts, of mean square 1 over the categories: (r, r - 1)."""
    if categories == 2:
        return np.array([[1.0], [-1.0]])
    return sqrt(categories) * contrasts(categories)


@lru_cache(maxsize=256)
def _basis(shape: tuple[int, ...], order: int) -> dict[Attributes, Floats]:
    """Return the contrasts of each set of axes up to an order: (cells, coefficients)."""
    sides = [contrast_codes(r) for r in shape]
    found = {}
    for own in sets_up_to(len(shape), min(order, len(shape))).members:
        block = np.ones((1, 1))
        for axis, side in enumerate(sides):
            factor = side if axis in own else np.ones((len(side), 1))
            block = np.asarray(np.kron(block, factor), np.float64)
        found[own] = block
    return found


@dataclass(frozen=True, slots=True, eq=False)
class _Batch:
    """Views of one shape and mechanism, of which the same sets are shared.

    The covariances of coefficients are those of one report.
    """

    views: list[ViewEstimate]
    private: list[Attributes]  # Sets of axes
    places: Indices  # (views, shared coefficients): their positions among all shared ones
    values: Floats  # (views, shared coefficients)
    others: list[Floats]  # Of each private set: (views, its coefficients)
    spread: Floats  # (views, shared, shared): covariance
    mixed: list[Floats]  # Of each private set: (views, its coefficients, shared): covariance
    traces: list[Floats]  # Of each private set: (views,), sums of variances
    reports: Floats  # (views,)


class LeastSquares:
    """The pooled coefficients.

    Attributes:
        values: by set of attributes, coefficients of its contrasts, one axis for each attribute.
        variances: by set, the mean variance of its coefficients.
    """

    def __init__(self, views: Sequence[ViewEstimate], near: Near, order: int) -> None:
        """Pool at least one view, up to an order; `fits` says whether that is possible."""
        self.values: dict[Attributes, Floats] = {}
        self.variances: dict[Attributes, float] = {}
        self._cardinalities = near.features.cardinalities
        count = _held(views, order)
        self._places, self._size = self._laid_out([own for own, held in count.items() if held > 1])
        batches = [self._batch(own, near, order) for own in self._alike(views, order)]
        solved, spread = self._shared(batches)
        for batch in batches:
            self._privates(batch, solved, spread)

    def _directions(self, members: Attributes) -> tuple[int, ...]:
        return tuple(self._cardinalities[i] - 1 for i in members)

    def _laid_out(self, sets: Sequence[Attributes]) -> tuple[dict[Attributes, Indices], int]:
        """Return the positions of the coefficients of each shared set, and their number."""
        places, start = {}, 0
        for own in sets:
            size = prod(self._directions(own))
            places[own] = np.arange(start, start + size)
            start += size
        return places, start

    def _alike(self, views: Sequence[ViewEstimate], order: int) -> list[list[ViewEstimate]]:
        """Return the views in groups of one shape and mechanism that share the same sets."""
        found: dict[tuple[object, ...], list[ViewEstimate]] = {}
        for view in views:
            own = view.attributes
            axes = sets_up_to(len(own), min(order, len(own))).members
            shared = tuple(tuple(own[a] for a in part) in self._places for part in axes)
            shape = tuple(self._cardinalities[i] for i in own)
            found.setdefault((shape, view.mechanism, shared), []).append(view)
        return list(found.values())

    def _batch(self, views: list[ViewEstimate], near: Near, order: int) -> _Batch:
        """Compute coefficients and covariances of views that are alike."""
        first = views[0].attributes
        basis = _basis(tuple(self._cardinalities[i] for i in first), order)
        is_shared = {s: tuple(first[a] for a in s) in self._places for s in basis}
        shared = [s for s, several in is_shared.items() if several]
        private = [s for s, several in is_shared.items() if not several]
        tables, diagonal, factors = _conditioned(views, near)
        own = np.hstack([np.zeros((tables.shape[1], 0)), *(basis[s] for s in shared)])
        moved = diagonal[:, :, None] * own - factors @ (factors.transpose(0, 2, 1) @ own)
        places = [
            [self._places[tuple(view.attributes[a] for a in s)] for s in shared] for view in views
        ]
        # The squares of a row of contrasts add up to their number.
        traces = [
            basis[s].shape[1] * diagonal.sum(axis=1)
            - np.square(basis[s].T @ factors).sum(axis=(1, 2))
            for s in private
        ]
        return _Batch(
            views,
            private,
            np.array([np.concatenate([np.zeros(0, np.intp), *place]) for place in places]),
            tables @ own,
            [tables @ basis[s] for s in private],
            own.T @ moved,
            [basis[s].T @ moved for s in private],
            traces,
            np.array([view.reports for view in views], np.float64),
        )

    def _shared(self, batches: Sequence[_Batch]) -> tuple[Floats, Floats]:
        """Return the shared coefficients and their covariance: shapes (size,), (size, size)."""
        information, score = np.zeros((self._size, self._size)), np.zeros(self._size)
        for batch in batches:
            own = np.linalg.inv(batch.spread) * batch.reports[:, None, None]
            where = batch.places
            np.add.at(information, (where[:, :, None], where[:, None, :]), own)
            np.add.at(score, where, (own @ batch.values[:, :, None])[:, :, 0])
        spread = np.linalg.inv(information)
        solved = spread @ score
        for members, place in self._places.items():
            self.values[members] = solved[place].reshape(self._directions(members))
            self.variances[members] = float(np.diagonal(spread)[place].mean())
        return solved, np.asarray(spread, np.float64)

    def _privates(self, batch: _Batch, solved: Floats, spread: Floats) -> None:
        """Correct the private coefficients of views by the errors of their shared ones."""
        where = batch.places
        change = solved[where] - batch.values
        inverse = np.linalg.inv(batch.spread)
        after = (
            spread[where[:, :, None], where[:, None, :]]
            - batch.spread / batch.reports[:, None, None]
        )
        for number, own in enumerate(batch.private):
            gain = batch.mixed[number] @ inverse
            values = batch.others[number] + (gain @ change[:, :, None])[:, :, 0]
            less = ((gain @ after) * gain).sum(axis=(1, 2))
            variances = (batch.traces[number] / batch.reports + less) / values.shape[1]
            for view, value, variance in zip(batch.views, values, variances, strict=True):
                members = tuple(view.attributes[a] for a in own)
                self.values[members] = value.reshape(self._directions(members))
                self.variances[members] = float(variance)


def _conditioned(views: Sequence[ViewEstimate], near: Near) -> tuple[Floats, Floats, Floats]:
    """Return tables of views that are alike, and the covariances of one report.

    Tables are conditioned on their known sum, 1, unless their mechanism fixes it. A covariance is
    ``diag(diagonal) - factors factors^T``; shapes are (views, cells), (views, cells) and (views,
    cells, factors).
    """
    mechanism, tables = views[0].mechanism, np.stack([view.table for view in views])
    found = [mechanism.covariance(1, one) for one in near.tables([v.attributes for v in views])]
    diagonal = np.stack([one.diagonal for one in found])
    factors = np.stack([one.factors for one in found])
    with_sum = diagonal - (factors @ factors.sum(axis=1)[:, :, None])[:, :, 0]
    variance = with_sum.sum(axis=1)
    free = variance > 1e-9 * diagonal.sum(axis=1)
    inverse = np.where(free, 1.0 / np.where(free, variance, 1.0), 0.0)
    gap = (1.0 - tables.sum(axis=1)) * inverse
    one_more = (with_sum * np.sqrt(inverse)[:, None])[:, :, None]
    factors = np.concatenate([factors, one_more], axis=2)
    return tables + with_sum * gap[:, None], diagonal, factors


def _held(views: Sequence[ViewEstimate], order: int) -> Counter[Attributes]:
    """Return how many views hold each set of up to ``order`` attributes."""
    return Counter(
        own
        for view in views
        for size in range(1, min(order, len(view.attributes)) + 1)
        for own in combinations(view.attributes, size)
    )


def fits(views: Sequence[ViewEstimate], features: Features, order: int) -> bool:
    """Return whether least squares are possible at moderate cost, and differ from simple averages.

    Cost: O(views · 2^attributes of a view).
    """
    several = {view.mechanism for view in views if len(view.attributes) > 1}
    least = min(
        (m.cells * float(m.covariance(1, _even(m)).interaction) for m in several), default=0
    )
    if not several or least > MOST_NOISE or any(m.cells > MOST_CELLS for m in several):
        return False
    sizes = [r - 1 for r in features.cardinalities]
    count = _held(views, order)
    shared = sum(prod(sizes[i] for i in own) for own, held in count.items() if held > 1)
    return shared <= MOST_SHARED


def _even(mechanism: Mechanism) -> Floats:
    return np.full(mechanism.cells, 1.0 / mechanism.cells)
