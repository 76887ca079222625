"""What a few causes cannot express: shrunken residuals of pairs and triples.

They are integrated out: their variances add to those of the statistics. See section 5.
"""

from __future__ import annotations

import numpy as np

from calmstream.estimators.noise_aware.layout import SCALES, TYPICAL, Reals, choose
from calmstream.estimators.noise_aware.statistics import Targets

GRID, RATIOS = SCALES[:42:2], SCALES[24::3]
"""Scales of residuals, up to half a correlation, and a pair's factor, from next to nothing to ten,
whose prior is half-Cauchy: a horseshoe."""


def half_normal(order: int) -> Reals:
    """Return the log prior, on the grid, of the scale of residuals of so many attributes."""
    return np.asarray(np.log(GRID) - 0.5 * np.square(2.0 * GRID / TYPICAL[order - 1]))


class Residuals:
    """Variances of residuals, and with them the precision of each statistic, 0 without estimate.

    ``pairs`` and ``triples`` are precisions: (chains, columns, columns), (chains, columns, pairs).
    """

    def __init__(self, targets: Targets, chains: int) -> None:
        self._targets = targets
        self._layout = layout = targets.layout
        units = (layout.labels - 1.0) ** -0.5
        half = np.where((layout.labels == 2) & (not layout.bits), 0.5, 1.0)
        self._unit, self._bits = units * half, 1.0 / half  # a bit among labels has two columns
        self.spread = self._spread(targets.margins)
        self.tau, self.delta = np.full(chains, 0.02), np.full(chains, 0.02)
        self.kappa = np.ones((chains, layout.size, layout.size), np.float32)
        self._at = np.nonzero(np.triu(targets.known, 1))
        self.update()

    def _spread(self, share: Reals) -> Reals:
        return np.asarray(self._layout.variance(share) * self._bits)

    def follow(self, means: Reals) -> None:
        """Let the units follow the margins; (chains, columns)."""
        now = np.maximum(self._spread(self._layout.probabilities(means)), 1e-4).mean(axis=0)
        self.spread = self.spread + 0.2 * (now - self.spread)

    def update(self) -> None:
        """Follow the scales."""
        s, targets = self.spread * self._unit, self._targets
        unit = np.outer(s, s).astype(np.float32)
        tau = np.square(self.tau)[:, None, None].astype(np.float32)
        self.variance: Reals = self.kappa * tau * unit
        total = targets.variances + self.variance
        self.pairs: Reals = np.where(targets.known, 1.0 / total, 0.0).astype(np.float32)
        third = targets.triples.variances + np.square(self.delta)[:, None, None]
        self.triples: Reals = np.where(targets.triples.known, 1.0 / third, 0.0).astype(np.float32)

    def redraw(
        self, second: Reals, third: Reals, random: np.random.Generator, *, pairs: bool
    ) -> None:
        """Draw the scales given the causes' moments; ``pairs``: those of pairs, too."""
        if pairs and self._at[0].size:
            self._redraw_pairs(second, random)
        if third.size:
            self._redraw_triples(third, random)
        self.update()

    def _redraw_triples(self, third: Reals, random: np.random.Generator) -> None:
        triples, layout = self._targets.triples, self._layout
        r = layout.labels
        part = np.where(layout.bits, 1.0, (r - 1.0) / r)
        weight = part[:, None] * part[triples.first] * part[triples.second]
        weight = weight[triples.known]  # free directions of a statistic
        gap = np.square(triples.values - third)[:, triples.known]
        noise = triples.variances[triples.known] + np.square(GRID)[:, None]
        score = (gap * weight) @ (1.0 / noise).T + np.log(noise) @ weight
        self.delta = GRID[choose(random, half_normal(3) - 0.5 * score)]

    def _redraw_pairs(self, second: Reals, random: np.random.Generator) -> None:
        i, j = self._at
        s = (self.spread * self._unit).astype(np.float32)
        unit, noise = s[i] * s[j], self._targets.variances[i, j]
        gap = np.square(self._targets.products - second)[:, i, j][:, None]

        def energy(square: Reals, own: Reals) -> Reals:
            total = noise + square.astype(np.float32)[:, None] * own[:, None]
            return np.asarray(gap / total + np.log(total))

        score = energy(np.square(GRID), unit * self.kappa[:, i, j]).sum(axis=2)
        self.tau = GRID[choose(random, half_normal(2) - 0.5 * score)]
        own = unit * np.square(self.tau).astype(np.float32)[:, None]
        density = -0.5 * energy(np.square(RATIOS), own)
        density = np.exp(density - density.max(axis=1, keepdims=True))
        half_cauchy = (RATIOS / (1.0 + np.square(RATIOS))).astype(np.float32)
        chance = np.cumsum(density * half_cauchy[:, None], axis=1)
        point = random.random((len(chance), 1, len(i)), np.float32) * chance[:, -1:]
        at = np.minimum((chance < point).sum(axis=1), len(RATIOS) - 1)
        self.kappa[:, i, j] = self.kappa[:, j, i] = np.square(RATIOS)[at]

    def remaining(self) -> Reals:
        """Return the mean variance of pairs' residuals given the causes and the estimates."""
        known = self._targets.known
        left = np.where(known, self.variance * self._targets.variances * self.pairs, self.variance)
        return np.asarray(left.mean(axis=0))
