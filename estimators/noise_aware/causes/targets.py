"""The statistics in the columns of the model: unbiased moments of one, two and three features."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from calmstream.estimators.noise_aware.arrays import Flags, Indices, Reals
from calmstream.estimators.noise_aware.causes.layout import Layout
from calmstream.estimators.noise_aware.input.features import Features
from calmstream.estimators.noise_aware.input.ordered import Signs
from calmstream.estimators.noise_aware.input.statistics import MOST_PRECISE, Statistics

LEAST_SHARE = 1e-3
"""Least probability of a label in the margins to start from: its logarithm is finite."""


MOST_TRIPLES = 300_000
"""Maximum number of columns times pairs of columns; in wider domains triples are not read, and each
is in so few reports that it says little."""


class Triples:
    """Moments of three features: each feature by all pairs of features of two others."""

    def __init__(self, layout: Layout, blocks: Sequence[tuple[Indices, Reals, float]]) -> None:
        """``blocks``: for three attributes their columns' indices, estimates, and precision."""
        size, owner = layout.size, layout.owner
        self.first, self.second = np.nonzero(owner[:, None] < owner[None])
        self.index = np.zeros((size, size), int)
        pairs = np.arange(len(self.first))
        self.index[self.first, self.second] = self.index[self.second, self.first] = pairs
        self.values = np.zeros((size, len(pairs)), np.float32)
        precision = np.zeros((size, len(pairs)))
        for (x, y, z), values, known in blocks:
            for u, v, w in ((x, y, z), (y, x, z), (z, x, y)):
                self.values[u, self.index[v, w]] = values
                precision[u, self.index[v, w]] = known
        self.known: Flags = precision > 0
        self.variances: Reals = (1.0 / np.where(self.known, precision, 1.0)).astype(np.float32)

    def products(self, features: Reals) -> Reals:
        """Return the products of all pairs of features: (chains, pairs, states)."""
        return features[:, self.first] * features[:, self.second]


class Targets:
    """Estimates and variances; `known` says which second moments have an estimate."""

    def __init__(
        self,
        layout: Layout,
        features: Features,
        statistics: Statistics,
        signs: dict[int, Signs],
    ) -> None:
        to = _columns(layout, features)
        at = np.argmax(np.abs(to) > 0, axis=1)  # the precision is that of the column's feature
        self.means = (to @ statistics.means).astype(np.float32)
        self.mean_precision = statistics.mean_precision[at].astype(np.float32)
        self.products = (to @ statistics.products @ to.T).astype(np.float32)
        precision = np.minimum(statistics.product_precision, MOST_PRECISE)[np.ix_(at, at)]
        self.known: Flags = precision > 0
        variances = 1.0 / np.where(self.known, precision, 1.0)
        self.variances: Reals = variances.astype(np.float32)
        self.triples = _triples(layout, features, statistics, to)
        self.sign_rows, self.sign_values, self.sign_precision = _signs(layout, signs)
        valid = statistics.valid_means(features)
        if layout.bits:
            self.margins = np.asarray((1.0 + valid) / 2.0)
        else:
            tables = [features.margin(i, valid) for i in range(layout.count)]
            found = np.maximum(np.concatenate(tables), LEAST_SHARE)
            self.margins = found / (found @ layout.member)[layout.owner]


def _columns(layout: Layout, features: Features) -> Reals:
    """Return what makes columns of features: a bit among labels has two, +-sign / sqrt 2."""
    if layout.bits:
        return np.eye(layout.size)
    to = np.zeros((layout.size, features.size))
    for i, own in enumerate(layout.own):
        r = int(layout.cardinalities[i])
        half = np.sqrt(0.5)
        to[own, features.slices[i]] = np.eye(r) if r > 2 else [[half], [-half]]
    return to


def _triples(
    layout: Layout, features: Features, statistics: Statistics, to: Reals
) -> Triples | None:
    pairs = int((layout.owner[:, None] < layout.owner[None]).sum())
    if layout.size * pairs > MOST_TRIPLES:
        return None
    blocks = []
    third = {
        own: (np.full((1, 1, 1), value), known)
        for own, (value, known) in statistics.higher.items()
        if len(own) == 3
    }
    third |= {own: found for own, found in statistics.blocks.items() if len(own) == 3}
    for own, (values, known) in third.items():
        a, b, c = (to[layout.own[i], features.slices[i]] for i in own)
        columns = [np.arange(layout.own[i].start, layout.own[i].stop) for i in own]
        index = np.array(np.meshgrid(*columns, indexing="ij"))
        blocks.append(
            (index, np.einsum("abc,xa,yb,zc->xyz", values, a, b, c, optimize=True), known)
        )
    return Triples(layout, blocks) if blocks else None


def _signs(layout: Layout, signs: dict[int, Signs]) -> tuple[Reals, Reals, Reals]:
    """Return mean signs of levels as linear functions of the mean features, with precisions."""
    rows, values, precision = [], [], []
    for i, found in signs.items():
        r = int(layout.cardinalities[i])
        for row, value, variance in zip(found.rows, found.values, found.variances, strict=True):
            full = np.zeros(layout.size)
            full[layout.own[i]] = row / np.sqrt(r)
            rows.append(full)
            values.append(value - row.mean())
            precision.append(min(1.0 / variance, MOST_PRECISE))
    wide = np.array(rows, np.float32).reshape(-1, layout.size)
    return wide, np.array(values, np.float32), np.array(precision, np.float32)
