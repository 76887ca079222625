"""Tables of any attributes with intervals, from draws of causes and residuals: section 8.

Each draw of the causes' table is raked to those of fewer attributes; then its highest interaction
moves by a draw of its residual. The answer is the mean of the draws, their spread is its error.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from math import prod, sqrt
from typing import Any

import numpy as np

from calmstream.estimators.domain import Attributes
from calmstream.estimators.marginal import MAX_QUERY_CELLS, Z95
from calmstream.estimators.noise_aware.layout import LEAST, TYPICAL, Floats, Reals
from calmstream.estimators.noise_aware.residuals import GRID, half_normal
from calmstream.estimators.noise_aware.sampler import Draws
from calmstream.estimators.noise_aware.statistics import Targets
from calmstream.estimators.numerics.contraction import contract
from calmstream.estimators.numerics.raking import outer, rake

INFLATION = 1.2
"""Multiplies standard errors: chains are short and find not all causes; measured, not derived."""

MOST_NUMBERS, LEAST_DRAWS = 1 << 18, 12
"""Numbers in the draws of one table: large tables have fewer draws, but a spread needs some."""

MOST_LEARNT = 100
"""Sets from which a scale is learnt: more change it by less than its own width."""


class Tables:
    """Answers from draws."""

    def __init__(self, targets: Targets, draws: Draws) -> None:
        self.targets, self.draws = targets, draws
        self._layout = layout = targets.layout
        self._found: dict[Attributes, Floats] = {}
        self._held = 0
        self._unit = (layout.variance(targets.margins) @ layout.member) / layout.free
        self._scales: dict[int, Floats] = {}
        self._top = 2
        for order in (3, 4):
            sets = [own for own in targets.higher if len(own) == order]
            if order == 3 or sets:
                self._scales[order] = self._learn(order, sets)
                self._top = order

    def answer(self, attributes: Attributes) -> tuple[Floats, Floats]:
        """Return a table and its deviations: shapes (*labels) and (draws, *labels)."""
        drawn = self._drawn(attributes)
        table = drawn.mean(axis=0)
        if len(attributes) > self._top:
            table = self._raked(table[None], attributes, mean=True)[0]
        return table, np.maximum(drawn - drawn.mean(axis=0), -table)

    def causes(self, attributes: Attributes, count: int | None = None) -> Floats:
        """Return draws of the table of the causes alone: (draws, *labels)."""
        weights, share = self.draws.weights[:count], self.draws.share
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

    def _drawn(self, attributes: Attributes) -> Floats:
        """Return draws of a table: (draws, *labels)."""
        if attributes in self._found:
            return self._found[attributes]
        table = self._smaller(attributes)
        if 1 < len(attributes) <= self._top:
            shift = self._residual(attributes, table)
            base = outer(_margins(table)) if len(attributes) == 2 else table
            table = self._raked(np.maximum(table + shift, LEAST * base), attributes)
        if len(attributes) <= self._top:
            if self._held > MAX_QUERY_CELLS:
                self._found, self._held = {}, 0
            self._found[attributes] = table
            self._held += table.size
        return table

    def _smaller(self, attributes: Attributes) -> Floats:
        """Return draws of a table that only those of fewer attributes, and the causes, decide."""
        cells = prod(int(self._layout.cardinalities[i]) for i in attributes)
        table = self.causes(attributes, max(LEAST_DRAWS, MOST_NUMBERS // cells))
        return self._raked(table, attributes) if len(attributes) > 2 else table

    def _raked(self, table: Floats, attributes: Attributes, *, mean: bool = False) -> Floats:
        """Return tables raked to those of fewer attributes, or to the means of these."""
        size = min(len(attributes) - 1, self._top)
        targets = []
        for axes in combinations(range(len(attributes)), size):
            small = self._drawn(tuple(attributes[a] for a in axes))
            small = small.mean(axis=0)[None] if mean else small[: len(table)]
            targets.append((axes, small))
        return rake(table, targets)

    def _residual(self, attributes: Attributes, table: Floats) -> Floats:
        """Return draws of what a residual adds to the cells."""
        random = np.random.default_rng(attributes)
        if len(attributes) == 2:
            return self._pair_residual(attributes, table, random)
        found = self._layout.interactions(table, attributes)
        gain, left = self._gain(attributes)
        unit, free = self._units(attributes)
        shift = gain * (self.targets.higher[attributes][0] - found) if gain else 0.0 * found
        noise = sqrt(left * free / unit) * random.normal(size=table.shape)
        for axis, margin in enumerate(_margins(table), 1):
            m = margin.mean(axis=0)  # covariance diag(m) - m m', of trace below 1
            side = (np.diag(np.sqrt(m)) - np.outer(m, np.sqrt(m))) / sqrt(max(m.size - 1, 1))
            noise = np.moveaxis(np.tensordot(noise, side, (axis, 1)), -1, axis)
        return self._layout.cells(shift, attributes) + noise

    def _pair_residual(
        self, attributes: Attributes, table: Floats, random: np.random.Generator
    ) -> Floats:
        """Return draws of a pair's residual, in the columns of the causes, as cells."""
        layout, targets = self._layout, self.targets
        (i, j), (a, b) = attributes, (layout.own[x] for x in attributes)
        known = targets.known[a, b]
        noise = np.where(known, targets.variances[a, b], np.inf)
        left_over = self.draws.residual[a, b]
        gain = np.where(known, left_over / noise, 0.0)
        share = layout.variance(targets.margins)
        unit = np.outer(share[a], share[b]) / sqrt(layout.free[i] * layout.free[j])
        spread = np.sqrt(_doubted(left_over, 2, unit, noise))
        shift = gain * (targets.products[a, b] - layout.interactions(table, attributes))
        return layout.cells(shift + spread * random.normal(size=shift.shape), attributes)

    def _learn(self, order: int, sets: Sequence[Attributes]) -> Floats:
        """Return the posterior of the scale of interactions that smaller tables do not show."""
        if len(sets) > MOST_LEARNT:
            sets = [sets[i] for i in np.linspace(0, len(sets) - 1, MOST_LEARNT).astype(int)]
        score = half_normal(order)
        for own in sets:
            value, known = self.targets.higher[own]
            unit, free = self._units(own)
            found = self._layout.interactions(self._smaller(own), own).mean(axis=0)
            total = np.square(GRID) * unit + 1.0 / known
            score = score - 0.5 * (np.square(value - found).sum() / total + free * np.log(total))
        weight = np.exp(score - score.max())
        return np.asarray(weight / weight.sum())

    def _units(self, own: Attributes) -> tuple[float, float]:
        """Return the variance of a correlation of 1, and the number of free directions."""
        free = prod(int(self._layout.cardinalities[i]) - 1 for i in own)
        return float(np.prod(self._unit[list(own)])), float(free)

    def _gain(self, own: Attributes) -> tuple[float, float]:
        """Return the mean gain of an interaction's estimate, and the variance that remains."""
        unit, scale = self._units(own)[0], self._scales[len(own)]
        prior = np.square(GRID) * unit
        if own not in self.targets.higher:
            return 0.0, float(_doubted(float(scale @ prior), len(own), unit, np.inf))
        noise = 1.0 / self.targets.higher[own][1]
        gain = prior / (prior + noise)
        left = _doubted(float(scale @ (gain * noise)), len(own), unit, noise)
        return float(scale @ gain), float(left)


def _doubted(left: Any, order: int, unit: Any, noise: Any) -> Any:
    """Return the variance that remains of a residual, at least as if its prior were `TYPICAL`."""
    # What few causes and a shared scale cannot express may be as large in some sets.
    return np.maximum(left, 1.0 / (1.0 / (np.square(TYPICAL[order - 1]) * unit) + 1.0 / noise))


def _margins(tables: Floats) -> list[Floats]:
    """Return the margins of tables (batch, *labels): (batch, labels) each."""
    axes = range(1, tables.ndim)
    return [tables.sum(axis=tuple(b for b in axes if b != a)) for a in axes]


def errors(table: Floats, away: Floats) -> Floats:
    """Return standard errors, of which no interval is wider than [0, 1]: (*cells)."""
    found = INFLATION * np.sqrt(np.square(away).mean(axis=0))
    return np.asarray(np.minimum(found, np.maximum(table, 1.0 - table) / Z95))


def grouped(table: Floats, away: Floats, members: Sequence[Floats]) -> tuple[Floats, Floats]:
    """Return sums over groups of labels and their covariance: (groups,) and (groups, groups)."""
    sums = contract(table, members).ravel()
    moved = contract(away, members).reshape(len(away), -1)
    own = np.sqrt(np.square(moved).mean(axis=0))
    scale = errors(sums, moved) / np.where(own > 0.0, own, 1.0)
    return sums, np.asarray(moved.T @ moved / len(moved) * np.outer(scale, scale))
