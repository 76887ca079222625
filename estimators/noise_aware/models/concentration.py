"""How even the margins of attributes of several categories are: one prior for each, from one law.

The categories of attribute i have a symmetric Dirichlet prior of concentration a_i, and

    log a_i ~ N(mu, 1),   mu ~ N(log 0.7, 1),   both on grids,

so attributes whose margins many reports tell say how even those of the others are: where noise
drowns a margin, what is believed of it is mostly its prior. Both are drawn from their exact
conditionals.
"""

from __future__ import annotations

from math import lgamma
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from estimators.noise_aware.sampling.draws import choose

if TYPE_CHECKING:
    from collections.abc import Sequence

Floats = NDArray[np.float64]

_WITHIN, _LEVEL, _CENTRE = 1.0, 1.0, np.log(0.7)
"""Deviations of log a_i about mu, e times either way, and of mu about its centre, between
Jeffreys' and the even law."""

_LOG_GRID = np.linspace(np.log(0.05), np.log(20.0), 24)
_GRID = np.exp(_LOG_GRID)
_LEVELS = np.linspace(_LOG_GRID[0], _LOG_GRID[-1], 21)
_LEVEL_PRIOR = -0.5 * np.square((_LEVELS - _CENTRE) / _LEVEL)


def _law_of_levels() -> Floats:
    """Logarithms of the chances of a_i given mu: shape (levels, grid)."""
    score = -0.5 * np.square((_LOG_GRID - _LEVELS[:, None]) / _WITHIN)
    return np.asarray(score - np.log(np.exp(score).sum(axis=1, keepdims=True)), np.float64)


_GIVEN_LEVEL = _law_of_levels()


class Concentrations:
    """The present draw for all attributes of all chains.

    Attributes:
        values: shape (chains, attributes), 1 for binary attributes, which have another prior.
    """

    def __init__(
        self, cardinalities: Sequence[int], chains: int, random: np.random.Generator
    ) -> None:
        """Start every attribute at the even law.

        Args:
            cardinalities: of all attributes.
            chains: side by side.
            random: what draws come from.
        """
        self._random = random
        self._several = np.array(cardinalities) > 2
        self.values = np.ones((chains, len(cardinalities)))
        self._at = np.full(self.values.shape, int(np.abs(_LOG_GRID).argmin()))
        self._level = np.full(chains, int(np.abs(_LEVELS - _CENTRE).argmin()))

    def draw(self, i: int, share: Floats) -> None:
        """That of one attribute.

        Args:
            i: the attribute, of r > 2 categories.
            share: shape (chains, r): its present margins.
        """
        r = share.shape[1]
        norm = np.array([lgamma(r * a) - r * lgamma(a) for a in _GRID])
        logs = np.log(np.maximum(share, 1e-12)).sum(axis=1)[:, None]
        self._at[:, i] = choose(self._random, norm + _GRID * logs + _GIVEN_LEVEL[self._level])
        self.values[:, i] = _GRID[self._at[:, i]]

    def draw_level(self) -> None:
        """What all have in common; nothing is drawn where all attributes are binary."""
        if self._several.any():
            likely = _GIVEN_LEVEL[:, self._at[:, self._several]].sum(axis=2).T
            self._level = choose(self._random, likely + _LEVEL_PRIOR)
