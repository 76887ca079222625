"""Hybrid-dimensional grids (HDG), for the margins of numbers.

Yang, Wang, Li, Cheng and Su, Answering multi-dimensional range queries under local differential
privacy, VLDB 2020. Devices are shared among grids of one number and grids of two numbers, evenly.
Grids of two numbers are coarser; both sizes follow from the paper's error bounds. Estimates become
non-negative, and what grids say about one number is averaged by inverse variance. Reports have the
mechanism of least variance in place of OLH, whose variance is as large or larger. Values are even
inside of a cell. Written from the paper, not its published code.
"""

from __future__ import annotations

from itertools import combinations
from math import exp, sqrt

import numpy as np

from calmstream.estimators.mechanisms.adaptive import best_oracle

Floats = np.ndarray

ALPHA_1, ALPHA_2 = 0.7, 0.03
"""Parameters of the sizes of grids, as in the paper."""

ROUNDS = 3
"""Rounds of non-negativity and consistency in turn."""


def sizes(epsilon: float, one: int, two: int) -> tuple[int, int]:
    """Return the cells of an axis in grids of one and of two numbers, which are powers of two.

    ``one`` and ``two`` are the numbers of devices of a grid.
    """
    e = exp(epsilon)
    g1 = (one * (e - 1) ** 2 * ALPHA_1**2 / (2 * e)) ** (1 / 3)
    g2 = sqrt(2 * ALPHA_2 * (e - 1) * sqrt(two / e))
    return tuple(int(2 ** np.clip(round(np.log2(max(g, 1))), 1, 6)) for g in (g1, g2))


def margins(
    epsilon: str, codes: np.ndarray, levels: list[int], random: np.random.Generator
) -> list:
    """Return the estimated margins of all numbers, shape (levels,) each, from all devices."""
    count = len(levels)
    grids = [(j,) for j in range(count)] + list(combinations(range(count), 2))
    own = random.integers(len(grids), size=len(codes))
    cells = sizes(float(epsilon), len(codes) // len(grids), len(codes) // len(grids))
    found = {}
    for number, grid in enumerate(grids):
        shape = [min(cells[len(grid) - 1], levels[j]) for j in grid]
        part = codes[own == number]
        places = [
            part[:, j].astype(np.int64) * g // levels[j] for j, g in zip(grid, shape, strict=True)
        ]
        flat = np.ravel_multi_index(places, shape)
        mechanism = best_oracle(epsilon, int(np.prod(shape)))
        counts = mechanism.draw_tally_of(flat, random)
        found[grid] = mechanism.estimate(counts, len(part)).reshape(shape)
    for _ in range(ROUNDS):
        found = {grid: non_negative(table) for grid, table in found.items()}
        for j in range(count):
            consistent(found, j)
    found = {grid: non_negative(table) for grid, table in found.items()}
    return [spread(found[(j,)], r) for j, r in enumerate(levels)]


def non_negative(table: Floats) -> Floats:
    """Clip at 0 and shift the rest to sum 1, until nothing is negative (Norm-Sub)."""
    out = table.copy()
    while True:
        out = np.maximum(out, 0.0)
        above = out > 0.0
        out[above] += (1.0 - out.sum()) / max(int(above.sum()), 1)
        if out.min() >= 0.0:
            return out


def consistent(found: dict[tuple[int, ...], Floats], j: int) -> None:
    """Give all grids of number j the same shares of the coarsest cells, in place."""
    holding = [(grid, grid.index(j)) for grid in found if j in grid]
    coarse = min(found[grid].shape[axis] for grid, axis in holding)
    sums, weights = [], []
    for grid, axis in holding:
        table = found[grid]
        margin = table.sum(axis=tuple(a for a in range(table.ndim) if a != axis))
        sums.append(margin.reshape(coarse, -1).sum(axis=1))
        weights.append(coarse / table.size)  # the variance of a sum grows with its cells
    mean = np.average(sums, axis=0, weights=weights)
    for (grid, axis), own in zip(holding, sums, strict=True):
        table = found[grid]
        each = table.size // coarse  # cells of one coarse cell
        change = np.repeat((mean - own) / each, table.shape[axis] // coarse)
        found[grid] = table + np.expand_dims(
            change, tuple(a for a in range(table.ndim) if a != axis)
        )


def spread(shares: Floats, levels: int) -> Floats:
    """Return the table of all levels, even inside of a cell."""
    cell = np.arange(levels) * len(shares) // levels
    return np.asarray(shares[cell] / np.bincount(cell)[cell])
