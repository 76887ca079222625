"""Blocks: the dependence of two categorical attributes beyond that of the common factors.

The block of attributes i and j is the matrix ``sigma_ij a b^T`` of rank one. Vectors a and b are
standard normal; the size sigma_ij is 0 with probability 1/2, else half-Cauchy of a common scale.
All blocks of all chains are drawn at once, from exact conditional distributions (Gibbs sampling).
See noise-aware.md, section 5.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np

from calmstream.estimators.noise_aware.arrays import Flags, Floats
from calmstream.estimators.noise_aware.input.features import Features
from calmstream.estimators.noise_aware.priors import BLOCK_SCALE, BLOCK_SIZE
from calmstream.estimators.numerics.grids import half_cauchy
from calmstream.estimators.numerics.sampling import choose


class Blocks:
    """Blocks of all pairs of attributes of which at least one has more than two categories.

    Attributes:
        table: last draw, shape (chains, size, size), symmetric, 0 outside of the blocks.
        expected: mean of `table` given all but one side of each block; of the same shape.
        count: number of blocks.
    """

    def __init__(
        self, features: Features, known: Flags, chains: int, random: np.random.Generator
    ) -> None:
        """Place all blocks in one array, as wide as the widest attribute.

        ``known``, shape (size, size), says which products have an estimate.
        """
        self._random = random
        self.table = np.zeros((chains, features.size, features.size))
        self.expected = np.zeros_like(self.table)
        starts, widths = [s.start for s in features.slices], features.widths
        pairs = [
            (i, j)
            for i, j in combinations(range(len(widths)), 2)
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
        self._sigma, self._scale = np.full((chains, len(pairs)), 0.02), np.full(chains, 0.05)

    def sweep(self, gap: Floats, weight: Floats, scale: Floats) -> None:
        """Draw every block once; cost O(chains · blocks · width²).

        ``gap`` holds the estimates less all parts of the model but the blocks, ``weight`` their
        precisions, ``scale`` products of the features' deviations: (chains, size, size) each.
        """
        scaled = self._read(scale)
        w = np.where(self._inside, self._read(weight), 0.0)
        information, linear = w * scaled * scaled, w * scaled * self._read(gap)
        sigma = self._sigma[:, :, None, None]
        x = sigma * self._right[:, :, None, :]
        self._left, _ = self._normal((linear * x).sum(-1), (information * x * x).sum(-1))
        x = sigma * self._left[:, :, :, None]
        self._right, mean = self._normal((linear * x).sum(-2), (information * x * x).sum(-2))
        self._write(self.expected, x * mean[:, :, None, :])
        x = self._left[:, :, :, None] * self._right[:, :, None, :]
        self._draw_sizes((linear * x).sum((-1, -2)), (information * x * x).sum((-1, -2)))
        self._write(self.table, self._sigma[:, :, None, None] * x)

    def _write(self, table: Floats, blocks: Floats) -> None:
        """Write blocks into a table and its transpose."""
        first, second = self._cells
        table[:, first, second] = table[:, second, first] = blocks[:, self._inside]

    def _read(self, values: Floats) -> Floats:
        return values[:, self._rows, self._columns]

    def _normal(self, score: Floats, information: Floats) -> tuple[Floats, Floats]:
        """Draw one side of all blocks; also return the mean of its distribution."""
        precision = information + 1.0
        mean, noise = score / precision, self._random.normal(size=score.shape)
        return mean + noise / np.sqrt(precision), mean

    def _draw_sizes(self, score: Floats, information: Floats) -> None:
        """Draw the sizes of blocks, then their common scale."""
        sizes, scales = BLOCK_SIZE.points, BLOCK_SCALE.points
        grid = np.concatenate([[0.0], sizes])
        prior = np.log(half_cauchy(sizes / self._scale[:, None]))
        prior -= np.log(np.exp(prior).sum(axis=1, keepdims=True))
        prior = np.concatenate([np.zeros((len(prior), 1)), prior], axis=1)
        likely = score[:, :, None] * grid - 0.5 * information[:, :, None] * np.square(grid)
        self._sigma = grid[choose(self._random, likely + prior[:, None])]
        size = self._sigma[:, :, None]
        likely = -np.log1p(np.square(size / scales)) - np.log(scales)
        self._scale = scales[choose(self._random, ((size > 0.0) * likely).sum(axis=1))]
