"""Cramér's V, a measure of the dependence of two attributes, with its standard error."""

from __future__ import annotations

from math import inf, sqrt

import numpy as np

from calmstream.estimators.arrays import Floats


def cramers_v(table: Floats, variance: Floats | None = None) -> float:
    """Return Cramér's V of a 2-way table (r, s): 0 for independent attributes, at most 1.

    With the ``variance`` of each cell by noise, its expected contribution to chi-square is
    subtracted, and a cell's expected frequency is taken as at least its standard error, because
    otherwise a few cells near zero would dominate the sum.
    """
    total = float(table.sum())
    if total <= 0.0:
        return 0.0
    cells, noise, rows, columns = _parts(table, total, variance)
    expected = np.outer(rows, columns)
    divisor = np.maximum(expected, np.sqrt(noise))
    positive = divisor > 0.0
    chi = float(((np.square(cells - expected) - noise)[positive] / divisor[positive]).sum())
    return sqrt(min(max(chi, 0.0) / (min(cells.shape) - 1), 1.0))


def cramers_v_error(table: Floats, covariance: Floats, variance: Floats | None = None) -> float:
    """Return the standard error of `cramers_v` by the delta method, from the cells' covariance.

    V is the root of a quadratic, so the value is right only where V is several times as large; near
    independence it means nothing. Infinite where V is 0. ``covariance`` is that of the table as it
    is given, cells in rows: shape (cells, cells); ``variance`` is what `cramers_v` subtracts.
    """
    v = cramers_v(table, variance)
    if v <= 0.0:
        return inf
    total = float(table.sum())
    cells, noise, rows, columns = _parts(table, total, variance)
    expected = np.outer(rows, columns)
    floor = np.sqrt(noise)
    divisor = np.maximum(expected, floor)
    divisor = np.where(divisor > 0.0, divisor, inf)
    gap = cells - expected
    # Derivatives of the corrected sum: by the cell itself, and by its expected frequency, which is
    # the product of its row and its column.
    direct = 2.0 * gap / divisor
    moved = (np.square(gap) - noise) / np.square(divisor)
    by_expected = -direct - np.where(expected >= floor, moved, 0.0)
    slope = direct + (by_expected @ columns)[:, None] + (rows @ by_expected)[None, :]
    slope = (slope - float((slope * cells).sum())).ravel() / total  # of the table over its sum
    spread = max(float(slope @ covariance @ slope), 0.0)
    return float(sqrt(spread) / (2.0 * v * (min(cells.shape) - 1)))


def _parts(
    table: Floats, total: float, variance: Floats | None
) -> tuple[Floats, Floats, Floats, Floats]:
    """Return the cells over their sum with their noise, and the margins, not negative."""
    cells = table / total
    noise = np.zeros_like(cells) if variance is None else variance / total**2
    rows, columns = (np.maximum(cells.sum(axis=axis), 0.0) for axis in (1, 0))
    return cells, noise, rows, columns
