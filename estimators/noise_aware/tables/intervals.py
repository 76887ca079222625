"""Half widths of 95 % intervals of cells; a standard error is the half width divided by 1.96.

From draws of a table the half width is the 95 % quantile of ``|draw - table|``. For a well-known
cell that is 1.96 deviations; for a nearly empty one it is one-sided, as no draw is negative. Where
only mean and deviation are known, a log-normal distribution with these replaces the draws. See
noise-aware.md, section 8.
"""

from __future__ import annotations

import numpy as np

from calmstream.estimators.marginal import Z95
from calmstream.estimators.noise_aware.arrays import Floats

INFLATION = 1.25
"""Interval inflation: the deviations of a model's moments are multiplied by it. Many priors would
fit the data as well, but the draws come from one; real errors are about 1.2 times its deviations.
"""

INFLATION_TRAITS = 1.15
"""The same for latent traits of more than 9 attributes, whose prior learns from more pairs."""

INFLATION_SMOOTH = 1.1
"""The same for the margin of one ordered attribute: its draws come from many priors."""

FEW_DRAWS = 1.05
"""Inflation for few draws: the ratio of the 97.5 % quantiles of Student's t of 25 degrees of
freedom and of a normal variable; 40 draws of a few chains count as some 25 independent ones."""


def half_width(table: Floats, drawn: Floats) -> Floats:
    """Return half widths h of intervals about a table p that contain 95 % of its draws.

    Shapes (cells,) and (draws, cells), with at least two draws. The quantile is interpolated so
    that a new draw lies inside with probability 95 %. Then h is widened because draws are few:
    ``1 + h / p``, the ratio of the interval's upper end to p, is raised to the power `FEW_DRAWS`.
    Where h is small against p this multiplies h; where it is large, it widens the order of
    magnitude.
    """
    distance = np.sort(np.abs(drawn - table), axis=0)
    place = 0.95 * (len(distance) + 1) - 1
    below = min(int(place), len(distance) - 2)
    part = min(place - below, 1.0)
    half = (1.0 - part) * distance[below] + part * distance[below + 1]
    safe = np.maximum(table, 1e-12)
    return np.asarray(np.maximum(half, safe * np.expm1(FEW_DRAWS * np.log1p(half / safe))))


def log_normal_stderr(table: Floats, deviation: Floats) -> Floats:
    """Return standard errors whose intervals reach the upper end of a log-normal distribution.

    ``table`` holds the means p of the cells. With ``s^2 = log(1 + deviation^2 / p^2)`` a standard
    error is ``(p exp(1.96 s - s^2 / 2) - p) / 1.96``, or the deviation if that is larger.
    """
    square = np.log1p(np.square(deviation / np.maximum(table, 1e-150)))
    upper = table * np.exp(Z95 * np.sqrt(square) - square / 2)
    return np.maximum(deviation, (upper - table) / Z95)
