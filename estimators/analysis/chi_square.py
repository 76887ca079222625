"""Test of independence on a table with noise.

The statistic is Pearson's, as in Cormode et al. §6.1. Under independence it is a weighted sum of
squared normals whose weights are the eigenvalues of the noise of the interaction: with mechanism
noise many times what Pearson assumes. Comparing it with the usual critical value (as the paper
does) rejects nearly always; here the critical value is that of the weighted sum, by Satterthwaite's
approximation, which for two binary attributes (one weight) is exact. Gaboardi et al. 2016 treat the
central model; Rao and Scott 1981 the same problem in surveys.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from estimators.analysis.distribution import critical_value, tail

Floats = NDArray[np.float64]

LEVEL = 0.05


@dataclass(frozen=True, slots=True)
class Independence:
    """One test.

    Attributes:
        statistic: Pearson's chi-square, n times the squared relative interaction.
        critical: value exceeded with probability `level` by an independent pair, noise included.
        p_value: how likely an independent pair gives at least this statistic.
        uncorrected: critical value without noise, as the paper uses it.
        level: 0.05 by default.
    """

    statistic: float
    critical: float
    p_value: float
    uncorrected: float
    level: float = LEVEL

    @property
    def dependent(self) -> bool:
        """Whether independence is rejected."""
        return self.statistic > self.critical


def independence(
    table: Floats, covariance: Floats, margins: tuple[Floats, Floats], n: int, level: float = LEVEL
) -> Independence:
    """Test independence of the two attributes of a table.

    Args:
        table: shape (r, s), unbiased, may be negative: clipping would shift the statistic.
        covariance: shape (r s, r s), of the table's cells row-major, against the population that
            the devices stand for.
        margins: plausible distributions of the two attributes, shapes (r,) and (s,).
        n: reports, at least 1.
        level: probability of rejecting independence where it holds.
    """
    rows, columns = (np.maximum(m, 0.5 / n) for m in margins)
    rows, columns = rows / rows.sum(), columns / columns.sum()
    expected = np.outer(rows, columns)
    gap = _interaction(table) / np.sqrt(expected)
    slope = _slope(rows, columns) / np.sqrt(expected).reshape(-1, 1)
    spread = n * (slope @ covariance @ slope.T)
    total, squares = float(np.trace(spread)), float(np.square(spread).sum())
    found = float(n * np.square(gap).sum())
    plain = critical_value(level, (len(rows) - 1) * (len(columns) - 1))
    if total <= 0.0:
        return Independence(found, plain, tail(found, 1), plain, level)
    scale, freedom = squares / total, total**2 / squares
    return Independence(
        found, scale * critical_value(level, freedom), tail(found / scale, freedom), plain, level
    )


def statistic(table: Floats, n: int) -> float:
    """Pearson's chi-square of exact frequencies: what a test without privacy would see."""
    expected = np.outer(table.sum(axis=1), table.sum(axis=0))
    seen = expected > 0.0
    return float(n * (np.square(_interaction(table))[seen] / expected[seen]).sum())


def _interaction(table: Floats) -> Floats:
    """Table less the product of its margins; the table may sum to something near 1."""
    total = table.sum()
    gap: Floats = table - np.outer(table.sum(axis=1), table.sum(axis=0)) / total
    return gap


def _slope(rows: Floats, columns: Floats) -> Floats:
    """Derivative of the interaction by every cell, at an independent table: (cells, cells).

    It projects out both margins: ``(I - p 1^T) (x) (I - q 1^T)``.
    """
    out = [np.eye(len(m)) - np.outer(m, np.ones(len(m))) for m in (rows, columns)]
    return np.asarray(np.kron(*out), np.float64)
