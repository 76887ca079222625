"""The log-likelihood of one attribute's means and deviations, everything else held, and draws.

Second moments are linear in an attribute's mean m and deviation s,

    M_ij = m m_j + s shared_j,

so what estimates of them say is a quadratic form in (m, s).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import NDArray

from estimators.noise_aware.sampling.draws import choose

if TYPE_CHECKING:
    from collections.abc import Callable

Floats = NDArray[np.float64]

_WITHIN = np.linspace(-0.6, 0.6, 25)
"""Steps of the fine grid about a point of a coarse one, in steps of that: a mean that many reports
know lies between two points of the coarse grid."""

_SHARP, _FINEST = 4.0, 1e-7
"""How much more likely (in nats) the best point of a grid is than the second where the grid is too
coarse, and the step below which none is."""

_TERMS = [0, 1, 4, 2, 5]  # of a 3 x 3 matrix: mm, ms, ss, m and s with the estimates


@dataclass(frozen=True, slots=True, eq=False)
class Form:
    """Quadratic in the mean and deviation of each feature of an attribute.

    Attributes:
        products: shape (chains, features, 3, 3): weighted products of what m and s are multiplied
            by and of the estimates, in this order.
    """

    products: Floats

    @classmethod
    def of_pairs(cls, others: Floats, shared: Floats, seen: Floats, weight: Floats) -> Self:
        """Sum over the features of other attributes.

        Args:
            others: means, shape (chains, size).
            shared: what s is multiplied by, shape (chains, features, size).
            seen: estimates, shape (features, size).
            weight: their inverse variances, shape (chains, features, size).

        Cost: O(chains · features · size).
        """
        rows = np.empty((*shared.shape[:2], 3, shared.shape[2]))
        rows[:, :, 0] = others[:, None]
        rows[:, :, 1] = shared
        rows[:, :, 2] = seen
        return cls((rows * weight[:, :, None]) @ rows.transpose(0, 1, 3, 2))

    def add_mean(self, precision: Floats, seen: Floats) -> None:
        """Estimates of the means themselves: shape (features,) both."""
        self.products[:, :, 0, 0] += precision
        self.products[:, :, 0, 2] += precision * seen

    def score(self, c: int, m: Floats, s: Floats) -> Floats:
        """Of the c-th feature at m and s, shape (grid,) or (chains, grid): (chains, grid)."""
        mm, ms, ss, m_seen, s_seen = self._terms(c)[:, :, None].transpose(1, 0, 2)
        return np.asarray(m * (m_seen - 0.5 * mm * m - ms * s) + s * (s_seen - 0.5 * ss * s))

    def on(self, c: int, laid: Floats) -> Floats:
        """The same on a fixed grid as `laid` lays it out: (chains, grid)."""
        return self._terms(c) @ laid

    def _terms(self, c: int) -> Floats:
        return self.products[:, c].reshape(-1, 9).take(_TERMS, 1)


def laid(m: Floats, s: Floats) -> Floats:
    """A grid of means and deviations, shape (grid,), for `Form.on`: (5, grid)."""
    return np.stack([-0.5 * m * m, -m * s, -0.5 * s * s, m, s])


def refined(
    random: np.random.Generator, coarse: Floats, score: Callable[[Floats], Floats], grid: Floats
) -> Floats:
    """A draw of tanh(z) for each chain: z from an even grid, then from a finer one about it.

    Of very many reports even that grid is too coarse, and one point takes all: then from a finer
    one about that point, and so on.

    Args:
        random: what it is drawn from.
        coarse: scores on the grid, shape (chains, grid).
        score: of any z, shape (chains, points); a new array.
        grid: shape (grid,).
    """
    z, step = grid[choose(random, coarse)], grid[1] - grid[0]
    chains = np.arange(len(coarse))
    while True:
        near = z[:, None] + step * _WITHIN
        value = score(near)
        z = near[chains, choose(random, value)]
        value.partition(-2, axis=1)
        step *= _WITHIN[1] - _WITHIN[0]
        if float((value[:, -1] - value[:, -2]).max()) < _SHARP or step < _FINEST:
            return np.asarray(np.tanh(z), np.float64)
