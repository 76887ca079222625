"""Half widths of 95 % intervals of cells; a standard error is the half width over 1.96.

From draws of the table the half width is the 95 % quantile of ``|draw - table|``: 1.96 deviations
where a cell is well known, one-sided where it is nearly empty. Where only mean and deviation are at
hand, a log-normal distribution with these replaces the draws. See noise-aware.md, section 8.
"""

from __future__ import annotations

import numpy as np

from estimators.noise_aware.arrays import Floats

INFLATION = 1.25
"""Interval inflation: deviations of a model's moments times this, because its prior is one of many
that fit and its draws know one. Errors on held-out data are mostly 1.2 times the claim."""

INFLATION_TRAITS = 1.15
"""The same of latent traits of more than 9 attributes, whose prior learns from more pairs."""

FEW_DRAWS = 1.05
"""Inflation because draws are few: the 97.5 % quantile of Student's t of 25 degrees of freedom over
the normal one, as 40 draws of a few chains are worth some 25 independent ones."""


def half_width(table: Floats, drawn: Floats) -> Floats:
    """Return half widths of intervals about a table (cells,) that contain 95 % of its draws.

    Interpolated so that a new draw lies inside with probability 95 %. Of a nearly empty cell the
    order of magnitude is uncertain. So ``1 + h / p``, the upper end's ratio to it, is raised to the
    power `FEW_DRAWS`, which multiplies an h that is small against p. Draws, at least two: (draws,
    cells).
    """
    away = np.sort(np.abs(drawn - table), axis=0)
    place = 0.95 * (len(away) + 1) - 1
    below = min(int(place), len(away) - 2)
    part = min(place - below, 1.0)
    half = (1.0 - part) * away[below] + part * away[below + 1]
    safe = np.maximum(table, 1e-12)
    return np.asarray(np.maximum(half, safe * np.expm1(FEW_DRAWS * np.log1p(half / safe))))


def log_normal_stderr(table: Floats, deviation: Floats) -> Floats:
    """Return standard errors whose intervals reach up to those of log-normal distributions.

    Of means p and deviations of cells: with s^2 = log(1 + deviation^2 / p^2), the larger of the
    deviation and of ``(p exp(1.96 s - s^2 / 2) - p) / 1.96``.
    """
    square = np.log1p(np.square(deviation / np.maximum(table, 1e-150)))
    upper = table * np.exp(1.96 * np.sqrt(square) - square / 2)
    return np.maximum(deviation, (upper - table) / 1.96)
