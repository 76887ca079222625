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


@dataclass(frozen=True, slots=True)
class Share:
    """How much of the first of two candidates to take.

    Attributes:
        value: the share, 0 to 1.
        known: how far the statistics decide it, from 0, where it is the prior's, to 1.
    """

    value: float
    known: float


def share_of_first(
    first: Candidate,
    second: Candidate,
    seen: Floats,
    precision: Floats,
    weight: Floats,
    prior: float,
) -> Share:
    """The share of the first candidate that minimises the estimated error of the mixture.

    Args:
        first: f.
        second: g.
        seen: shape (statistics,): t.
        precision: shape (statistics,): 1 / v; statistics with 0 are left out.
        weight: shape (statistics,): w, what an error in each costs.
        prior: share when the statistics cannot tell.
    """
    told = precision > 0
    v = 1.0 / precision[told]
    f, g, t, w = first.values[told], second.values[told], seen[told], weight[told]
    apart = float((w * np.square(f - g)).sum())
    if apart <= 0.0:
        return Share(prior, 0.0)
    slope = first.freedom[told] - second.freedom[told]
    best = float((w * ((f - g) * (t - g) - v * slope)).sum()) / apart
    variance = float((np.square(w) * v * np.square(f - g)).sum()) / apart**2
    known = _PRIOR_VARIANCE / (variance + _PRIOR_VARIANCE)
    return Share(float(np.clip(known * best + (1.0 - known) * prior, 0.0, 1.0)), known)
