"""How much of each of two estimates to take: Stein's unbiased estimate of their error.

For statistics t ~ N(theta, diag v) and an estimate f(t), the error ``sum w (f - theta)^2`` has the
unbiased estimate ``sum w ((f - t)^2 - v + 2 v df/dt)``. Of a posterior mean under normal noise the
derivative is the posterior variance over v, exactly; of a penalised fit it is the diagonal of its
influence matrix. For ``c f + (1 - c) g`` the estimate is quadratic in c, so its minimum is

    c* = sum w ((f - g)(t - g) - v (df - dg)) / sum w (f - g)^2.

With much noise c* is itself noise, of variance ``sum w^2 v (f - g)^2 / (sum w (f - g)^2)^2``; it is
therefore shrunk towards a stated prior by inverse variance, and kept in [0, 1].
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_PRIOR_VARIANCE = 0.25


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """An estimate of every statistic.

    Attributes:
        values: shape (statistics,).
        freedom: shape (statistics,): derivative of each value by its own statistic.
    """

    values: Floats
    freedom: Floats


def share_of_first(
    first: Candidate,
    second: Candidate,
    seen: Floats,
    precision: Floats,
    weight: Floats,
    prior: float,
) -> float:
    """The share of the first candidate that minimises the estimated error of the mixture.

    Args:
        first: f.
        second: g.
        seen: shape (statistics,): t.
        precision: shape (statistics,): 1 / v; statistics with 0 are left out.
        weight: shape (statistics,): w, what an error in each costs.
        prior: share when the statistics cannot tell.

    Returns:
        Between 0 and 1.
    """
    known = precision > 0
    v = 1.0 / precision[known]
    f, g, t, w = first.values[known], second.values[known], seen[known], weight[known]
    apart = float((w * np.square(f - g)).sum())
    if apart <= 0.0:
        return prior
    slope = first.freedom[known] - second.freedom[known]
    best = float((w * ((f - g) * (t - g) - v * slope)).sum()) / apart
    variance = float((np.square(w) * v * np.square(f - g)).sum()) / apart**2
    shrunk = (best / variance + prior / _PRIOR_VARIANCE) / (1.0 / variance + 1.0 / _PRIOR_VARIANCE)
    return float(np.clip(shrunk, 0.0, 1.0))
