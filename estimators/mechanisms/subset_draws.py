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


def draw_many_sets(own: Counts, free: Counts, size: int, generator: np.random.Generator) -> Counts:
    """Draw as :func:`draw_sets` does, for many collections of reports in the same operations.

    Which reports arrive at their own cell is drawn number by number of the cells that they still
    have to choose, so this takes ``size`` times the operations of :func:`draw_sets`, each of them
    for all collections.

    Args:
        own: shape (draws, L), as for :func:`draw_sets`.
        free: shape (draws,).

    Returns:
        Shape (draws, L), int64.
    """
    draws, cells = own.shape
    to_choose = np.arange(size + 1)
    before = np.zeros((draws, size + 1), np.int64)
    before[:, size - 1] = own.sum(axis=1)
    after = np.zeros((draws, size + 1), np.int64)
    after[:, size] = free
    out = own.astype(np.int64)
    for j in range(cells):
        band = _occupied(before)
        arrived = _arrivals(before[:, band], out[:, j], generator)
        before[:, band] -= arrived
        for group, remaining in ((before, max(cells - 1 - j, 1)), (after, cells - j)):
            own_band = _occupied(group)
            inside = group[:, own_band]
            rates = np.minimum(to_choose[own_band] / remaining, 1)
            containing = generator.binomial(inside, rates)
            out[:, j] += containing.sum(axis=1)
            inside -= containing
            # A report that has nothing left to choose contains no further cell.
            first = max(own_band.start, 1)
            group[:, first - 1 : own_band.stop - 1] += containing[:, first - own_band.start :]
        after[:, band] += arrived
    return out


def _occupied(groups: Counts) -> slice:
    """Return the kinds of reports that there are: most are close to what is expected."""
    kinds = np.flatnonzero(groups.any(axis=0))
    return slice(int(kinds[0]), int(kinds[-1]) + 1) if len(kinds) else slice(1, 1)


def _arrivals(groups: Counts, number: Counts, generator: np.random.Generator) -> Counts:
    """Draw which kinds of reports a uniform choice of ``number`` of them has.

    Args:
        groups: shape (draws, kinds), number of reports of each kind.
        number: shape (draws,), at most their sum.

    Returns:
        The shape of ``groups``: multivariate hypergeometric, one binary choice after another.
    """
    out = np.zeros_like(groups)
    left, others = number.copy(), groups.sum(axis=1)
    for kind in range(groups.shape[1]):
        own = groups[:, kind]
        others = others - own
        out[:, kind] = generator.hypergeometric(own, others, left)
        left = left - out[:, kind]
    return out
