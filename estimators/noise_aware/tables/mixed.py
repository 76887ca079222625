"""Tables with standard errors that mix the log-linear model with a posterior of moments."""

from __future__ import annotations

from math import comb

import numpy as np

from estimators.domain import Attributes
from estimators.noise_aware.arrays import Floats
from estimators.noise_aware.input.statistics import Statistics
from estimators.noise_aware.models.joint import Joint
from estimators.noise_aware.models.posterior import Posterior
from estimators.noise_aware.models.third_moments import ThirdMoments
from estimators.noise_aware.priors import SHARE_VARIANCE
from estimators.noise_aware.tables.intervals import log_normal_stderr
from estimators.noise_aware.tables.moments import MomentTables

MOST_SURE = 0.75
"""Standard errors take neither of two models for more likely than this where the statistics do not
decide their share: a prior share is no evidence, and a model errs in ways its draws do not know."""


class MixedTables:
    """Mixture of the log-linear model's tables with those of a posterior of moments.

    ``share`` is that of the log-linear model, ``most_sure`` the largest probability of either model
    in standard errors.
    """

    def __init__(self, joint: Joint, moments: MomentTables, share: float, most_sure: float) -> None:
        """Keep both models and their weights."""
        self._joint, self._moments = joint, moments
        self.share, self.most_sure = share, most_sure

    def answer(self, attributes: Attributes) -> tuple[Floats, Floats]:
        """Return a table and standard errors; see `model.MomentModel`.

        The variance of a mixture is the mean of both variances and their disagreement.
        """
        table, stderr = self._moments.answer(attributes)
        own, variance = self._joint.marginal(attributes)
        if self._moments.binary is not None and len(attributes) > 2:
            variance = variance + self._moments.binary.unmodelled(attributes).reshape(own.shape)
        variance = np.square(log_normal_stderr(own, np.sqrt(variance)))
        sure = float(np.clip(self.share, 1.0 - self.most_sure, self.most_sure))
        spread = sure * variance + (1.0 - sure) * np.square(stderr)
        spread += sure * (1.0 - sure) * np.square(own - table)
        return self.share * own + (1.0 - self.share) * table, np.sqrt(spread)


def share_of_joint(
    joint: Joint,
    statistics: Statistics,
    posterior: Posterior,
    third: ThirdMoments | None,
    k: int,
    prior: float,
) -> tuple[float, float]:
    """Return `share_of_first` for the log-linear model, by its error on orders one to three.

    ``k`` is the size of the marginals that matter.
    """
    d, k = posterior.means.size, max(k, 2)
    pairs = np.triu_indices(d, 1)
    values = [posterior.means, posterior.products[pairs]]
    variances = [posterior.mean_variance, posterior.product_variance[pairs]]
    if third is not None:
        values.append(third.triples.predicted + third.shift)
        variances.append(third.variance)
    other, variance = np.concatenate(values), np.concatenate(variances)
    members, size = joint.members[: other.size], other.size
    estimates, precision = statistics.of(members)
    weight = np.array([comb(k, len(s)) / comb(d, len(s)) for s in members])
    first = (joint.coefficients[:size], joint.sensitivity[:size])
    second = (other, variance * precision)
    return share_of_first(first, second, estimates, precision, weight, prior)


def share_of_first(
    first: tuple[Floats, Floats],
    second: tuple[Floats, Floats],
    estimates: Floats,
    precision: Floats,
    weight: Floats,
    prior: float,
) -> tuple[float, float]:
    """Return the share of the first of two models in their mixture, by Stein's estimate of error.

    Shape (statistics,) all: of each model its values and their derivatives by their own statistics,
    the statistics with inverse variances (those with 0 are left out), and the weights of errors.
    ``prior`` is the share when the statistics cannot decide; how far they do, from 0 to 1, is
    returned next to the share. See noise-aware.md, section 7.
    """
    known = precision > 0
    v = 1.0 / precision[known]
    f, g, t, w = first[0][known], second[0][known], estimates[known], weight[known]
    apart = float((w * np.square(f - g)).sum())
    if apart <= 0.0:
        return prior, 0.0
    slope = first[1][known] - second[1][known]
    best = float((w * ((f - g) * (t - g) - v * slope)).sum()) / apart
    variance = float((np.square(w) * v * np.square(f - g)).sum()) / apart**2
    gain = SHARE_VARIANCE / (variance + SHARE_VARIANCE)
    return float(np.clip(gain * best + (1.0 - gain) * prior, 0.0, 1.0)), gain
