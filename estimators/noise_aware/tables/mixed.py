"""Tables with standard errors: of one posterior of moments, or mixed with a log-linear model."""

from __future__ import annotations

from math import comb

import numpy as np

from estimators.domain import Attributes
from estimators.noise_aware.arrays import Floats
from estimators.noise_aware.input.features import Features
from estimators.noise_aware.input.statistics import Statistics
from estimators.noise_aware.models.joint import Joint
from estimators.noise_aware.models.posterior import Posterior
from estimators.noise_aware.models.third_moments import ThirdMoments
from estimators.noise_aware.tables.binary import BinaryTables
from estimators.noise_aware.tables.intervals import half_width, log_normal_stderr
from estimators.noise_aware.tables.pairs import PairTables
from estimators.noise_aware.tables.risk import Candidate, Share, share_of_first

MOST_SURE = 0.75
"""Standard errors take neither of two models for more likely than this where the statistics do not
decide their share: a prior share is no evidence, and a model errs in ways its draws do not know."""


class MomentTables:
    """Tables from one posterior of moments; ``binary`` makes those over three and more bits."""

    def __init__(
        self, features: Features, posterior: Posterior, third: ThirdMoments | None, inflation: float
    ) -> None:
        """Prepare both ways to make tables; for ``inflation`` see `intervals`."""
        self._pairs, self._inflation = PairTables(features, posterior), inflation
        all_binary = bool(features.binary.all())
        self.binary = BinaryTables(posterior, third, inflation) if all_binary else None

    def answer(self, attributes: Attributes) -> tuple[Floats, Floats]:
        """Return a table and standard errors; see `model.MomentModel`."""
        if self.binary is not None and len(attributes) > 2:
            table, drawn = self.binary.answer(attributes)
            return table, half_width(table.ravel(), drawn).reshape(table.shape) / 1.96
        table = self._pairs.table(attributes)
        deviation = self._pairs.deviation(attributes, table)
        if len(attributes) > 2:
            return table, log_normal_stderr(table, deviation)
        return table, self._inflation * deviation


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
) -> Share:
    """Return the share of the log-linear model, by the estimated error on orders one to three.

    ``k`` is the size of the marginals that matter, ``prior`` the share where statistics cannot
    decide.
    """
    d, k = posterior.means.size, max(k, 2)
    members = [s for s in joint.members if len(s) <= 3]
    estimates, precision = statistics.of(members)
    other, variance = np.zeros(estimates.size), np.zeros(estimates.size)
    weight = np.array([comb(k, len(s)) / comb(d, len(s)) for s in members])
    pairs = np.triu_indices(d, 1)
    cut, end = d, d + len(pairs[0])
    for into, one, two in (
        (other, posterior.means, posterior.products),
        (variance, posterior.mean_variance, posterior.product_variance),
    ):
        into[:cut], into[cut:end] = one, two[pairs]
    if third is not None:
        rows = slice(end, end + len(third.shift))
        other[rows] = third.triples.predicted + third.shift
        variance[rows] = third.variance
    size = estimates.size
    return share_of_first(
        Candidate(joint.coefficients[:size], joint.sensitivity[:size]),
        Candidate(other, variance * precision),
        estimates,
        precision,
        weight,
        prior=prior,
    )
