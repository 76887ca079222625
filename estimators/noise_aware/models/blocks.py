"""What two categorical attributes have between them alone: a block of rank one.

Beyond what all pairs share, the correlations of attributes i and j with several categories are
``sigma_ij a b^T`` (the leading term of correspondence analysis), a and b standard normal, and

    sigma_ij = 0 with probability 1/2, else half-Cauchy of a common scale,

so of the many blocks few may be large, and a block of pure noise is one of size 0. Evidence is
pooled over all cells of a block, which element by element would drown. Gibbs steps with exact
conditionals, all blocks of all chains at once: rows of a and b are normal, sigma and the common
scale are drawn from grids.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from estimators.noise_aware.sampling.draws import choose

if TYPE_CHECKING:
    from estimators.noise_aware.input.features import Features

Floats = NDArray[np.float64]

_SIZES = np.exp(np.linspace(np.log(3e-3), np.log(1.0), 29))
_GRID = np.concatenate([[0.0], _SIZES])
_SCALES = np.exp(np.linspace(np.log(3e-3), np.log(0.5), 16))
_START, _START_SCALE = 0.02, 0.05


class Blocks:
    """Blocks of all pairs of attributes of which one at least has more than two categories.

    Attributes:
        count: number of blocks.
        table: shape (chains, size, size), symmetric: the present draw, 0 outside of blocks.
        expected: same shape: its mean given all but one side of each block.
    """

    def __init__(
        self, features: Features, known: NDArray[np.bool_], chains: int, random: np.random.Generator
    ) -> None:
        """Lay all blocks into one array, as wide as the widest attribute.

        Args:
            features: of the domain.
            known: shape (size, size): products that anything is known about.
            chains: side by side.
            random: what draws come from.
        """
        self._random = random
        self.table = np.zeros((chains, features.size, features.size))
        self.expected = np.zeros_like(self.table)
        starts, widths = [s.start for s in features.slices], features.widths
        pairs = [
            (i, j)
            for i in range(len(widths))
            for j in range(i + 1, len(widths))
            if widths[i] * widths[j] > 1 and known[starts[i], starts[j]]
        ]
        self.count = len(pairs)
        shape = (len(pairs), max(widths))
        rows, columns = np.zeros(shape, np.intp), np.zeros(shape, np.intp)
        self._inside = np.zeros((*shape, max(widths)), bool)
        for b, (i, j) in enumerate(pairs):
            rows[b, : widths[i]] = starts[i] + np.arange(widths[i])
            columns[b, : widths[j]] = starts[j] + np.arange(widths[j])
            self._inside[b, : widths[i], : widths[j]] = True
        self._rows, self._columns = rows[:, :, None], columns[:, None, :]
        block, row, column = np.nonzero(self._inside)
        self._cells = (rows[block, row], columns[block, column])
        self._left = random.normal(size=(chains, *shape))
        self._right = random.normal(size=(chains, *shape))
        self._sigma = np.full((chains, len(pairs)), _START)
        self._scale = np.full(chains, _START_SCALE)

    def sweep(self, gap: Floats, weight: Floats, scale: Floats) -> None:
        """One draw of every block.

        Args:
            gap: shape (chains, size, size): estimates less everything but the blocks.
            weight: same shape: precision of the gap.
            scale: same shape: products of the features' deviations.

        Cost: O(chains · blocks · width²).
        """
        scaled = self._laid(scale)
        w = np.where(self._inside, self._laid(weight), 0.0)
        information, seen = w * scaled * scaled, w * scaled * self._laid(gap)
        sigma = self._sigma[:, :, None, None]
        x = sigma * self._right[:, :, None, :]
        self._left, _ = self._normal((seen * x).sum(-1), (information * x * x).sum(-1))
        x = sigma * self._left[:, :, :, None]
        self._right, mean = self._normal((seen * x).sum(-2), (information * x * x).sum(-2))
        self._lay(self.expected, x * mean[:, :, None, :])
        x = self._left[:, :, :, None] * self._right[:, :, None, :]
        self._sizes((seen * x).sum((-1, -2)), (information * x * x).sum((-1, -2)))
        self._lay(self.table, self._sigma[:, :, None, None] * x)

    def _lay(self, table: Floats, blocks: Floats) -> None:
        """Write blocks into a table, both ways."""
        first, second = self._cells
        table[:, first, second] = table[:, second, first] = blocks[:, self._inside]

    def _laid(self, values: Floats) -> Floats:
        return values[:, self._rows, self._columns]

    def _normal(self, score: Floats, information: Floats) -> tuple[Floats, Floats]:
        """A draw, and the mean of what it is drawn from."""
        precision = information + 1.0
        mean, noise = score / precision, self._random.normal(size=score.shape)
        return mean + noise / np.sqrt(precision), mean

    def _sizes(self, score: Floats, information: Floats) -> None:
        """Sizes of blocks, then their common scale."""
        prior = np.log(_SIZES / self._scale[:, None])
        prior -= np.log1p(np.square(_SIZES / self._scale[:, None]))
        prior -= np.log(np.exp(prior).sum(axis=1, keepdims=True))
        prior = np.concatenate([np.zeros((len(prior), 1)), prior], axis=1)
        likely = score[:, :, None] * _GRID - 0.5 * information[:, :, None] * np.square(_GRID)
        self._sigma = _GRID[choose(self._random, likely + prior[:, None])]
        there = self._sigma[:, :, None] > 0.0
        size = self._sigma[:, :, None]
        likely = -np.log1p(np.square(size / _SCALES)) - np.log(_SCALES)
        self._scale = _SCALES[choose(self._random, (there * likely).sum(axis=1))]
