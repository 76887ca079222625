"""Tables of any attributes with intervals, from draws of the causes and of the residuals.

A table is the causes' mean table, raked to pair tables that contain the pairs' residuals. One rule
gives every interval: a *deviation* is a draw of the causes less their mean, plus a draw of the
residuals and of interactions that nothing shows. A standard error is the root mean square of the
deviations; sums over groups have those of the summed deviations.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from math import prod, sqrt

import numpy as np

from calmstream.estimators.domain import Attributes
from calmstream.estimators.marginal import Z95
from calmstream.estimators.noise_aware.arrays import Floats, Reals
from calmstream.estimators.noise_aware.causes.layout import Layout
from calmstream.estimators.noise_aware.causes.sampler import Draws
from calmstream.estimators.noise_aware.causes.targets import Targets
from calmstream.estimators.numerics.contraction import contract
from calmstream.estimators.numerics.raking import outer, rake, valid_pair

INFLATION = 1.4
"""Multiplies standard errors: chains are short and find not all causes; measured, not derived."""

THIRD = 0.25
"""Size of interactions of three attributes that nothing shows, in correlations of their pairs."""

LEAST_KEPT = 1e-3
"""Least part of a cell that interactions of three leave: no cell that is raked may be negative."""

MOST_NUMBERS = 1 << 25
"""Maximum number of numbers in the draws of one table; large tables have fewer draws."""

LEAST_DRAWS = 12
"""Least number of draws of a table: quantiles of fewer mean nothing."""


class Tables:
    """Answers from draws."""

    def __init__(self, layout: Layout, targets: Targets, draws: Draws) -> None:
        self._layout, self._targets, self._draws = layout, targets, draws

    def drawn(self, attributes: Attributes, count: int | None = None) -> Floats:
        """Return the tables of the causes alone: (draws, *labels)."""
        weights, share = self._draws.weights[:count], self._draws.share
        half = (len(attributes) + 1) // 2
        left = self._product(weights, [share[i][:count] for i in attributes[:half]])
        right = self._product(np.ones_like(weights), [share[i][:count] for i in attributes[half:]])
        shape = [int(self._layout.cardinalities[i]) for i in attributes]
        table = left.transpose(0, 2, 1) @ right
        return np.asarray(table.reshape(-1, *shape), np.float64)

    @staticmethod
    def _product(start: Reals, shares: Sequence[Reals]) -> Reals:
        """Return products of labels' probabilities: (draws, states, cells)."""
        out = start[:, :, None]
        for share in shares:
            out = (out[..., None] * share[:, :, None]).reshape(*out.shape[:2], -1)
        return out

    def answer(self, attributes: Attributes) -> tuple[Floats, Floats]:
        """Return a table and its deviations: shapes (*labels) and (draws, *labels)."""
        cells = prod(int(self._layout.cardinalities[i]) for i in attributes)
        count = max(LEAST_DRAWS, min(len(self._draws.weights), MOST_NUMBERS // cells))
        drawn = self.drawn(attributes, count)
        mean = drawn.mean(axis=0)
        random = np.random.default_rng(cells)
        pairs = self._pairs(attributes, mean)
        table = self._table(attributes, mean, pairs)
        away = drawn - mean
        for (a, b), pair in pairs.items():
            noise = self._pair_noise(attributes[a], attributes[b], len(drawn), random)
            ratio = noise / np.maximum(pair, 1e-9)
            wide = [n if c in (a, b) else 1 for c, n in enumerate(table.shape)]
            away += table * ratio.reshape(-1, *wide)
        if len(attributes) > 2 and self._targets.triples is None:
            away += self._third_noise(table, len(drawn), random)
        return table, np.maximum(away, -table)

    def _pairs(self, attributes: Attributes, mean: Floats) -> dict[tuple[int, int], Floats]:
        """Return the pair tables with residuals, by axes."""
        found = {}
        for a, b in combinations(range(len(attributes)), 2):
            others = tuple(c for c in range(len(attributes)) if c not in (a, b))
            base = mean.sum(axis=others)
            left, right = self._codes(attributes[a]), self._codes(attributes[b])
            own = self._layout.own[attributes[a]], self._layout.own[attributes[b]]
            pair = base + left @ self._draws.pairs[own] @ right.T
            margins = base.sum(axis=1)[None], base.sum(axis=0)[None]
            found[a, b] = valid_pair(pair[None], *margins)[0]
        return found

    def _table(
        self, attributes: Attributes, mean: Floats, pairs: dict[tuple[int, int], Floats]
    ) -> Floats:
        if len(attributes) < 3:
            return pairs.get((0, 1), mean)
        table, triples = mean, self._targets.triples
        if len(attributes) == 3 and triples is not None:
            assert self._draws.triples is not None
            x, y, z = (np.arange(self._layout.size)[self._layout.own[i]] for i in attributes)
            block = self._draws.triples[x[:, None, None], triples.index[y[:, None], z][None]]
            codes = [self._codes(i) for i in attributes]
            shift = np.einsum("abc,xa,yb,zc->xyz", block, *codes, optimize=True)
            table = np.maximum(table + shift, LEAST_KEPT * table)
        targets = [(axes, pair[None]) for axes, pair in pairs.items()]
        return np.asarray(rake(table[None], targets, 6)[0])

    def _codes(self, i: int) -> Floats:
        return np.asarray(self._layout.codes(i), np.float64)

    def _pair_noise(self, i: int, j: int, count: int, random: np.random.Generator) -> Floats:
        """Return draws of the residual of a pair less its mean: (draws, labels, labels)."""
        spread = np.sqrt(self._draws.pair_variance[self._layout.own[i], self._layout.own[j]])
        noise = spread * random.normal(size=(count, *spread.shape))
        return np.asarray(self._codes(i) @ noise @ self._codes(j).T)

    def _third_noise(self, table: Floats, count: int, random: np.random.Generator) -> Floats:
        """Return draws of interactions of three attributes without any estimate."""
        axes = range(table.ndim)
        margins = [table.sum(axis=tuple(b for b in axes if b != a)) for a in axes]
        squares = []
        for a, b in combinations(axes, 2):
            pair = table.sum(axis=tuple(c for c in axes if c not in (a, b)))
            even = np.maximum(np.outer(margins[a], margins[b]), 1e-12)
            free = sqrt((table.shape[a] - 1) * (table.shape[b] - 1))
            squares.append(float((np.square(pair - even) / even).sum()) / free)
        size, total = THIRD * sqrt(float(np.mean(squares))), np.zeros((count, *table.shape))
        for members in combinations(axes, 3):
            shape = [table.shape[a] for a in members]
            noise = random.normal(size=(count, *shape))
            for axis, a in enumerate(members, 1):  # covariance diag(m) - m m', of trace below 1
                m = margins[a]
                side = (np.diag(np.sqrt(m)) - np.outer(m, np.sqrt(m))) / sqrt(max(m.size - 1, 1))
                noise = np.moveaxis(np.tensordot(noise, side, (axis, 1)), -1, axis)
            wide = noise.reshape(
                count, *(n if a in members else 1 for a, n in enumerate(table.shape))
            )
            rest = [np.ones((1, 1)) if a in members else margins[a][None] for a in axes]
            total += size * wide * outer(rest)
        return np.asarray(total)


def errors(table: Floats, away: Floats) -> Floats:
    """Return standard errors: shapes (*cells) and (draws, *cells).

    No interval is wider than one that contains all of [0, 1].
    """
    found = INFLATION * np.sqrt(np.square(away).mean(axis=0))
    return np.asarray(np.minimum(found, np.maximum(table, 1.0 - table) / Z95))


def grouped(table: Floats, away: Floats, members: Sequence[Floats]) -> tuple[Floats, Floats]:
    """Return sums over groups of labels and their covariance: (groups,) and (groups, groups)."""
    sums = contract(table, members).ravel()
    moved = contract(away, members).reshape(len(away), -1)
    own = np.sqrt(np.square(moved).mean(axis=0))
    scale = errors(sums, moved) / np.where(own > 0.0, own, 1.0)
    return sums, np.asarray(moved.T @ moved / len(moved) * np.outer(scale, scale))
