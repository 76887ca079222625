"""Test of independence of two attributes, on a table with noise.

The statistic is Pearson's chi-square (Cormode et al., section 6.1). For independent attributes it
is a sum of squared normal variables, weighted by the eigenvalues of the covariance of the
interaction, which noise makes much larger than Pearson assumes: with the usual critical value, as
in the paper, independence is nearly always rejected. Here it is that of the weighted sum, by
Satterthwaite's approximation, exact for two binary attributes. Gaboardi et al. 2016 treat the
central model, Rao and Scott 1981 the same problem in surveys.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from calmstream.estimators.arrays import Floats
from calmstream.estimators.numerics.distribution import critical_value, tail

LEVEL = 0.05  # probability of rejecting independence although it holds, the usual choice


@dataclass(frozen=True, slots=True)
class Independence:
    """The result of one test."""

    statistic: float
    critical: float  # exceeded by independent attributes with probability `LEVEL`
    p_value: float  # probability of at least this statistic if independent

    @property
    def dependent(self) -> bool:
        return self.statistic > self.critical


def independence(
    table: Floats, covariance: Floats, margins: tuple[Floats, Floats], n: int
) -> Independence:
    """Test independence of the two attributes of an unbiased table, shape (r, s).

    Cells may be negative, because a correction would change the distribution of the statistic, and
    need not sum to 1. ``covariance`` is that of the cells, row-major, with the sampling of devices.
    """
    # Half a report per value avoids a division by 0 for values that do not occur.
    rows, columns = (np.maximum(m, 0.5 / n) for m in margins)
    rows, columns = rows / rows.sum(), columns / columns.sum()
    expected = np.outer(rows, columns)
    slope = _slope(rows, columns) / np.sqrt(expected).reshape(-1, 1)
    chi = float(n * np.square(slope @ table.ravel()).sum())
    scaled = _scaled_chi_square(n * (slope @ covariance @ slope.T))
    scale, freedom = scaled or (1.0, float((len(rows) - 1) * (len(columns) - 1)))
    return Independence(chi, scale * critical_value(LEVEL, freedom), tail(chi / scale, freedom))


def even_independence(
    table: Floats, covariance: Floats, margins: tuple[Floats, Floats]
) -> Independence:
    """Test independence of a table (r, s) with all cells weighted alike.

    Pearson's weights make the errors of cells that hardly occur dominate where the errors of all
    cells are alike, as under local privacy. With the mean and the covariance of a posterior that
    shrinks towards independence, p-values are too large rather than too small.
    """
    slope = _slope(*margins)
    return zero_test(slope @ table.ravel(), slope @ covariance @ slope.T)


def zero_test(values: Floats, covariance: Floats) -> Independence:
    """Test whether normal variables (k,) have the mean 0, by the sum of their squares."""
    found = float(np.square(values).sum())
    scaled = _scaled_chi_square(covariance)
    if scaled is None:
        return Independence(0.0, critical_value(LEVEL, 1.0), 1.0)
    scale, freedom = scaled
    statistic = found / scale
    return Independence(statistic, critical_value(LEVEL, freedom), tail(statistic, freedom))


def _scaled_chi_square(covariance: Floats) -> tuple[float, float] | None:
    """Return scale and freedom (Satterthwaite 1946) for normal variables; None without variance."""
    total, squares = float(np.trace(covariance)), float(np.square(covariance).sum())
    return (squares / total, total**2 / squares) if total > 0.0 else None


def _slope(rows: Floats, columns: Floats) -> Floats:
    """Return the matrix from a table, row-major, to its interaction: shape (cells, cells).

    With the margins p, q of the table itself the interaction is the table minus their product. With
    others it is linear in the table, of mean 0 for independent attributes if one of them is right.
    """
    out = [np.eye(len(m)) - np.outer(m, np.ones(len(m))) for m in (rows, columns)]
    return np.asarray(np.kron(*out), np.float64)
