"""Concentrations of the Dirichlet priors of the margins of categorical attributes.

Attribute i has concentration a_i with ``log a_i ~ N(mu, 1)`` and a common mu, so well-known margins
say how even the others are. a_i and mu are drawn from exact conditional distributions on grids. See
noise-aware.md, section 5.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from math import lgamma

import numpy as np

from calmstream.estimators.noise_aware.arrays import Floats
from calmstream.estimators.noise_aware.priors import CONCENTRATION
from calmstream.estimators.numerics.sampling import choose


class Concentrations:
    """The last draw for all attributes of all chains.

    Attributes:
        values: concentrations, shape (chains, attributes); 1 for binary attributes, which have
            another prior.
    """

    def __init__(
        self, cardinalities: Sequence[int], chains: int, random: np.random.Generator
    ) -> None:
        """Start every attribute at the uniform distribution."""
        self._random, prior, grid = random, CONCENTRATION, np.log(CONCENTRATION.points)
        self._several = np.array(cardinalities) > 2
        self.values = np.ones((chains, len(cardinalities)))
        levels, centre = np.linspace(grid[0], grid[-1], 21), np.log(prior.median)
        score = -0.5 * np.square((grid - levels[:, None]) / prior.spread)
        norm = np.log(np.exp(score).sum(axis=1, keepdims=True))
        self._given_level = np.asarray(score - norm, np.float64)
        self._level_prior = -0.5 * np.square((levels - centre) / prior.spread)
        self._at = np.full(self.values.shape, int(np.abs(grid).argmin()))
        self._level = np.full(chains, int(np.abs(levels - centre).argmin()))

    def draw(self, i: int, share: Floats) -> None:
        """Draw the concentration of attribute i, of r > 2 categories, given margins (chains, r)."""
        r, grid = share.shape[1], CONCENTRATION.points
        logs = np.log(np.maximum(share, 1e-12)).sum(axis=1)[:, None]
        score = _norm(r) + grid * logs + self._given_level[self._level]
        self._at[:, i] = choose(self._random, score)
        self.values[:, i] = grid[self._at[:, i]]

    def draw_level(self) -> None:
        """Draw the common level, if any attribute has more than two categories."""
        if self._several.any():
            likely = self._given_level[:, self._at[:, self._several]].sum(axis=2).T
            self._level = choose(self._random, likely + self._level_prior)


@cache
def _norm(categories: int) -> Floats:
    """Return the logarithm of the Dirichlet density's constant at each concentration."""
    r = categories
    return np.array([lgamma(r * a) - r * lgamma(a) for a in CONCENTRATION.points])
