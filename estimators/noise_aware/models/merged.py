"""Merges neighbouring levels of attributes with an order, and expands moments to all levels again.

Dependence is modelled between merged levels, as the cost grows with the square of their number and
single levels have much noise. Inside of a merged level attributes are taken to be independent. See
noise-aware.md, section 11.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import sqrt
from typing import Self

import numpy as np

from calmstream.estimators.noise_aware.arrays import Floats, Indices
from calmstream.estimators.noise_aware.input.features import Features
from calmstream.estimators.noise_aware.input.ordered import Levels
from calmstream.estimators.noise_aware.input.statistics import Statistics
from calmstream.estimators.noise_aware.models.posterior import Posterior

MOST_LEVELS = 24
"""Maximum number of merged levels of an attribute: more raise the cost, not the accuracy."""

EVEN = 0.25
"""Weight of the number of levels against their probability, where levels are merged."""


@dataclass(frozen=True, slots=True, eq=False)
class Margin:
    """The posterior of a margin."""

    mean: Floats  # (labels,): non-negative, of sum 1
    drawn: Floats  # (draws, labels): posterior draws

    def of(self, labels: Indices) -> Margin:
        """Return the margin with its labels in another order: label ``labels[k]`` is the k-th."""
        return Margin(self.mean[labels], self.drawn[:, labels])


@dataclass(frozen=True)
class Merged:
    """Which levels are merged."""

    labels: Features  # The features of the labels
    parents: tuple[Indices, ...]  # Of each attribute, the merged level of each label: (labels,)

    @classmethod
    def of(
        cls, features: Features, levels: Mapping[int, Levels], margins: Mapping[int, Floats]
    ) -> Self:
        """Merge neighbouring levels of attributes with an order, as far as these have many.

        All merged levels have about the same sum of roots of probabilities; frequent levels stay
        alone. ``margins`` are about the margins, shape (labels,) each.
        """
        parents = []
        for i, size in enumerate(features.cardinalities):
            parent = np.arange(size)
            if i in levels and levels[i].count > MOST_LEVELS:
                count, codes = levels[i].count, levels[i].codes
                weight = np.sqrt(margins[i][codes[:count]])
                weight = weight / weight.sum() + EVEN / count
                middle = (weight.cumsum() - weight / 2.0) / weight.sum()
                place = (middle * MOST_LEVELS).astype(np.intp)
                level = np.unique(place, return_inverse=True)[1]
                parent[codes[:count]] = level
                parent[codes[count:]] = level[-1] + 1 + np.arange(size - count)
            parents.append(parent)
        return cls(features, tuple(parents))

    @cached_property
    def features(self) -> Features:
        """The features of the merged levels."""
        return Features(tuple(int(parent.max()) + 1 for parent in self.parents))

    @cached_property
    def members(self) -> tuple[Floats, ...]:
        """Which labels a merged level has: shape (merged levels, labels) for each attribute."""
        return tuple(
            np.equal.outer(np.arange(r), parent).astype(np.float64)
            for r, parent in zip(self.features.cardinalities, self.parents, strict=True)
        )

    def merges(self, i: int) -> bool:
        """Return whether levels of attribute i are merged."""
        return self.features.cardinalities[i] < self.labels.cardinalities[i]

    def names(self, labels: Sequence[Sequence[str]]) -> list[list[str]]:
        """Return the labels of the merged levels; those of several labels are numbers."""
        return [
            [own[part.argmax()] if part.sum() == 1 else "0" for part in members]
            for own, members in zip(labels, self.members, strict=True)
        ]

    def places(self, levels: Mapping[int, Levels]) -> list[Floats | None]:
        """Return the place of each merged level in its attribute's order; None without an order.

        It is the mean of its labels' places, and nan for labels that have none.
        """
        found: list[Floats | None] = []
        for i, members in enumerate(self.members):
            if i not in levels:
                found.append(None)
                continue
            place = np.empty(members.shape[1])
            place[levels[i].codes] = np.where(levels[i].ordered, np.arange(len(place)), np.nan)
            found.append(np.array([place[part > 0].mean() for part in members]))
        return found

    @cached_property
    def _feature(self) -> Indices:
        """The merged feature of each feature: shape (size,)."""
        merged = self.features
        return np.concatenate(
            [
                own.start + (parent if width > 1 else np.zeros(1, np.intp))
                for own, parent, width in zip(
                    merged.slices, self.parents, merged.widths, strict=True
                )
            ]
        )

    def statistics(self, found: Statistics) -> Statistics:
        """Return the estimates of the merged levels' moments, from those of the labels'.

        The precision of a merged feature is that of a label over ``spread``.
        """
        at, spread, into, offset = self._first, self._spread, self._into, self.offsets
        means = into @ found.means
        products = into @ found.products @ into.T + np.outer(offset, offset)
        products += np.outer(offset, means) + np.outer(means, offset)
        precision = found.product_precision[np.ix_(at, at)] / np.outer(spread, spread)
        return Statistics(
            means + offset,
            found.mean_precision[at] / spread,
            np.where(precision > 0.0, products, 0.0),
            precision,
            {},
        )

    def half_merged(self, found: Statistics, i: int) -> tuple[Floats, Floats]:
        """Return estimates of moments of attribute i's labels and merged levels, and precisions.

        Shape (labels, merged size) both. A merged level has the feature of `statistics` less its
        offset, so the moments have no noise of the means.
        """
        own = self.labels.slices[i]
        precision = found.product_precision[own][:, self._first] / self._spread
        return found.products[own] @ self._into.T, precision

    @cached_property
    def offsets(self) -> Floats:
        """What a merged feature adds to the scaled sum of its labels' features: (merged size,)."""
        return np.asarray((self._spread - 1.0) / np.sqrt(self.features.categories), np.float64)

    @cached_property
    def _first(self) -> Indices:
        """The first feature of each merged feature: shape (merged size,)."""
        return np.unique(self._feature, return_index=True)[1]

    @cached_property
    def _into(self) -> Floats:
        """Scaled sums of labels' features: shape (merged size, size)."""
        return np.equal.outer(np.arange(self.features.size), self._feature) * self._scale

    @cached_property
    def _spread(self) -> Floats:
        """The number of labels of each merged level, over the mean number: (merged size,)."""
        counts = np.bincount(self._feature).astype(np.float64)
        labels = np.repeat(np.array(self.labels.widths), self.features.widths)
        return np.asarray(
            counts * np.repeat(np.array(self.features.widths), self.features.widths) / labels
        )

    @cached_property
    def _scale(self) -> Floats:
        """Root of the number of merged levels over that of labels, by feature: shape (size,)."""
        ratio = np.array(self.features.widths) / np.array(self.labels.widths)
        return np.asarray(np.sqrt(np.repeat(ratio, self.labels.widths)), np.float64)

    def with_shares(self, posterior: Posterior, i: int, margin: Margin) -> Margin:
        """Return the margin of attribute i whose merged levels have the posterior's shares."""
        shares = self.features.margin(i, posterior.means)[None]
        drawn = self.features.margin(i, posterior.drawn_means)
        mean = self._shared(margin.mean[None], shares, i)[0]
        return Margin(mean, self._shared(margin.drawn[: len(drawn)], drawn, i))

    def _shared(self, tables: Floats, shares: Floats, i: int) -> Floats:
        """Return tables, (batch, labels), with these shares of merged levels, (batch, levels)."""
        sums, parent = tables @ self.members[i].T, self.parents[i]
        found = tables * (np.maximum(shares, 1e-12) / np.maximum(sums, 1e-12))[:, parent]
        return np.asarray(found / found.sum(axis=1, keepdims=True))

    def expanded(self, posterior: Posterior, margins: Mapping[int, Margin]) -> Posterior:
        """Return the posterior of the labels' moments, with these margins.

        ``posterior`` is that of the merged levels; attributes without one of the ``margins`` keep
        theirs. Correlations of merged levels stay as they are, and second moments follow the new
        margins; inside of a merged level attributes are independent.
        """
        tables = {i: margin.mean[None] for i, margin in margins.items()}
        means, products, part = self._moments(
            posterior.means[None], posterior.products[None], tables
        )
        drawn = {i: margin.drawn[: len(posterior.drawn_means)] for i, margin in margins.items()}
        drawn_means, drawn_products, _ = self._moments(
            posterior.drawn_means, posterior.drawn_products, drawn
        )
        mean_variance = posterior.mean_variance[self._feature]
        for i, table in drawn.items():
            mean_variance[self.labels.slices[i]] = self.labels.cardinalities[i] * table.var(0)
        spread = posterior.product_variance[np.ix_(self._feature, self._feature)]
        return replace(
            posterior,
            means=means[0],
            mean_variance=mean_variance,
            products=products[0],
            product_variance=spread * np.square(np.outer(part[0], part[0])),
            drawn_means=drawn_means,
            drawn_products=drawn_products,
        )

    def _moments(
        self, before: Floats, products: Floats, margins: Mapping[int, Floats]
    ) -> tuple[Floats, Floats, Floats]:
        """Return first and second moments of labels, and the factor of each feature's correlations.

        Shapes (batch, merged size), (batch, merged size, merged size) and (batch, labels) to
        (batch, size), (batch, size, size) and (batch, size).
        """
        after, means = before.copy(), before[:, self._feature]
        part = np.ones_like(means)
        for i, table in margins.items():
            r, rest = self.labels.cardinalities[i], self.features.cardinalities[i]
            own, sums = self.labels.slices[i], table @ self.members[i].T
            after[:, self.features.slices[i]] = sqrt(rest) * (sums - 1.0 / rest)
            means[:, own] = sqrt(r) * (table - 1.0 / r)
            whole = np.maximum(sums[:, self.parents[i]], 1e-12)
            part[:, own] = table / whole / self._scale[own] if self.merges(i) else 1.0
        part *= np.sqrt(self._variance(after) / self._variance(before))[:, self._feature]
        covariance = np.empty((*means.shape, means.shape[1]))
        for b in range(len(means)):  # one by one: large temporary arrays cost more than the work
            rows = (products[b] - np.outer(before[b], before[b]))[self._feature]
            found = covariance[b]
            np.take(rows, self._feature, axis=1, out=found)
            found *= part[b, :, None]
            found *= part[b]
            found += np.outer(means[b], means[b])
        return means, covariance, part

    def _variance(self, means: Floats) -> Floats:
        return np.maximum(self.features.variance(means), 1e-4)
