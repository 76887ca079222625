"""The share of each of two estimates in their mixture, by Stein's unbiased estimate of its error.

See noise-aware.md, section 7, for the formula and its shrinkage towards a prior share.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from estimators.noise_aware.arrays import Floats
from estimators.noise_aware.priors import SHARE_VARIANCE


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """An estimate of every statistic."""

    values: Floats  # (statistics,)
    sensitivity: Floats  # (statistics,): derivative of each value by its own statistic


@dataclass(frozen=True, slots=True)
class Share:
    """Share of the first of two candidates."""

    value: float  # The share, 0 to 1
    known: float  # How far statistics decide it, from 0, where it is the prior's, to 1


def share_of_first(
    first: Candidate,
    second: Candidate,
    estimates: Floats,
    precision: Floats,
    weight: Floats,
    prior: float,
) -> Share:
    """Return the share of the first candidate that minimises the mixture's estimated error.

    Shape (statistics,) of the estimates, their inverse variances (statistics with 0 are left out)
    and the weights, costs of an error in each; ``prior`` is the share when the statistics cannot
    decide.
    """
    known = precision > 0
    v = 1.0 / precision[known]
    f, g, t, w = first.values[known], second.values[known], estimates[known], weight[known]
    apart = float((w * np.square(f - g)).sum())
    if apart <= 0.0:
        return Share(prior, 0.0)
    slope = first.sensitivity[known] - second.sensitivity[known]
    best = float((w * ((f - g) * (t - g) - v * slope)).sum()) / apart
    variance = float((np.square(w) * v * np.square(f - g)).sum()) / apart**2
    gain = SHARE_VARIANCE / (variance + SHARE_VARIANCE)
    return Share(float(np.clip(gain * best + (1.0 - gain) * prior, 0.0, 1.0)), gain)
