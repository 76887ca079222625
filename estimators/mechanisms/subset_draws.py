"""Draws how many sets contain each cell, without drawing the sets; for simulation only."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from calmstream.estimators.mechanisms.base import Counts


def _advance(
    group: Counts, probabilities: NDArray[np.float64], generator: np.random.Generator
) -> int:
    """Draw which reports contain the current cell, and return how many do."""
    containing = generator.binomial(group, probabilities)
    group -= containing
    group[:-1] += containing[1:]
    return int(containing.sum())


def draw_sets(own: Counts, free: int, size: int, generator: np.random.Generator) -> Counts:
    """Draw the number of sets with each cell, cell by cell, without drawing the sets.

    A uniform set can be drawn sequentially: if a report still has to choose r of the k remaining
    cells, it contains the current cell with probability r / k. So it suffices to count reports by
    r. There are two kinds of reports. Those that certainly contain their own cell choose the others
    from all cells except that one. They start in ``before`` and move to ``after`` at their own
    cell; which of them have the current cell as their own is a uniform choice, because r does not
    depend on the own cell. All other reports are in ``after`` from the start.

    Args:
        own: shape (L,), for each cell the number of reports that certainly contain it as their own.

    Returns:
        Shape (L,), int64.
    """
    cells = len(own)
    to_choose = np.arange(size + 1)
    before = np.zeros(size + 1, np.int64)
    before[size - 1] = own.sum()
    after = np.zeros(size + 1, np.int64)
    after[size] = free
    out = own.astype(np.int64)
    for j in range(cells):
        arrived = generator.multivariate_hypergeometric(before, int(own[j]), method="marginals")
        before -= arrived
        for group, remaining in ((before, max(cells - 1 - j, 1)), (after, cells - j)):
            out[j] += _advance(group, np.minimum(to_choose / remaining, 1), generator)
        after += arrived
    return out
