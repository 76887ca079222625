"""Tables with standard errors that mix two models: the log-linear one, and one of the moments.

`share_of_joint` estimates which share of each gives the smallest error. See noise-aware.md,
section 7.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import comb, prod
from typing import Protocol

import numpy as np

from calmstream.estimators.domain import Attributes
from calmstream.estimators.noise_aware.arrays import Floats
from calmstream.estimators.noise_aware.input.statistics import Statistics
from calmstream.estimators.noise_aware.models.category_joint import CategoryJoint
from calmstream.estimators.noise_aware.models.joint import Joint, Moments
from calmstream.estimators.noise_aware.models.posterior import Posterior
from calmstream.estimators.noise_aware.models.third_moments import ThirdMoments
from calmstream.estimators.noise_aware.priors import SHARE_VARIANCE
from calmstream.estimators.noise_aware.tables.grouped import log_normal, of_draws
from calmstream.estimators.noise_aware.tables.intervals import log_normal_stderr
from calmstream.estimators.noise_aware.tables.misfit import Fitted
from calmstream.estimators.noise_aware.tables.moments import MomentTables
from calmstream.estimators.numerics.contraction import contract


class WholeTable(Protocol):
    """A fitted model of the joint distribution of all attributes."""

    @property
    def misses_orders(self) -> bool:
        """Whether its draws lack what `MomentTables.unmodelled` adds."""

    def marginal(self, attributes: Attributes) -> tuple[Floats, Floats]:
        """Return the table of ascending attributes and the variance of each cell.

        Shape of the attributes' cardinalities both.
        """

    def drawn_of(self, attributes: Attributes) -> tuple[Floats, Floats]:
        """Return the table and posterior draws of it: shapes (*cardinalities), (draws, *that)."""

    def first_two(self) -> tuple[Moments, Moments]:
        """Return the first and the second moments of the features and their variances.

        Shapes (size,) and (size, size); moments of one attribute with itself are 0.
        """


class MixedTables:
    """Mixture of the log-linear model's tables with those of a posterior of moments.

    ``share``, 0 to 1, is the weight of the log-linear model. In standard errors the weight of
    either model is at most ``most_sure``, so that the other one still counts.
    """

    def __init__(
        self, joint: WholeTable, moments: MomentTables, share: float, most_sure: float
    ) -> None:
        """Keep both models and their weights."""
        self._joint, self._moments = joint, moments
        self.share, self.most_sure = share, most_sure

    def answer(self, attributes: Attributes) -> tuple[Floats, Floats]:
        """Return the table over ascending attributes and standard errors of its cells.

        Shape of the attributes' cardinalities both. The variance of a mixture is the weighted mean
        of both variances plus a term for the difference of the two tables.
        """
        by_moments, stderr = self._moments.answer(attributes)
        by_joint, variance = self._joint.marginal(attributes)
        if len(attributes) > 2 and self._joint.misses_orders:
            variance = variance + self._moments.unmodelled(attributes)
        variance = np.square(log_normal_stderr(by_joint, np.sqrt(variance)))
        total = self._variance(variance, np.square(stderr), by_joint - by_moments)
        return self.share * by_joint + (1.0 - self.share) * by_moments, np.sqrt(total)

    def _variance(self, of_joint: Floats, of_moments: Floats, apart: Floats) -> Floats:
        """Return the variance of the mixture of values that are ``apart``."""
        weight = float(np.clip(self.share, 1.0 - self.most_sure, self.most_sure))
        total = weight * of_joint + (1.0 - weight) * of_moments
        return np.asarray(total + weight * (1.0 - weight) * np.square(apart), np.float64)

    def moments(self) -> tuple[Fitted, Fitted]:
        """Return the first and the second moments; see `model.MomentModel`."""
        by_joint, by_moments = self._joint.first_two(), self._moments.moments()
        first, second = (
            self._mixed(values, variance, other)
            for (values, variance), other in zip(by_joint, by_moments, strict=True)
        )
        return first, second

    def _mixed(self, values: Floats, variance: Floats, other: Fitted) -> Fitted:
        """Mix moments of the log-linear model with those of the other one."""
        c = self.share
        return Fitted(
            c * values + (1.0 - c) * other.values,
            c * variance + (1.0 - c) * other.posterior,
            self._variance(variance, other.stated, values - other.values),
        )

    def grouped(self, attributes: Attributes, members: Sequence[Floats]) -> tuple[Floats, Floats]:
        """Return sums over groups of labels and their covariance; see `model.MomentModel`."""
        by_moments, spread = self._moments.grouped(attributes, members)
        table, drawn = self._joint.drawn_of(attributes)
        by_joint, of_joint = contract(table, members).ravel(), of_draws(drawn, members)
        if len(attributes) > 2 and self._joint.misses_orders:
            of_joint += self._moments.unmodelled_groups(attributes, members)
        weight = float(np.clip(self.share, 1.0 - self.most_sure, self.most_sure))
        apart = by_joint - by_moments
        total = weight * log_normal(by_joint, of_joint) + (1.0 - weight) * spread
        total += weight * (1.0 - weight) * np.outer(apart, apart)
        return self.share * by_joint + (1.0 - self.share) * by_moments, total


def share_of_joint(
    joint: Joint,
    statistics: Statistics,
    posterior: Posterior,
    third: ThirdMoments | None,
    k: int,
    prior: float,
) -> tuple[float, float]:
    """Return `share_of_first` with the log-linear model as first, the moments as second model.

    The error is that of the moments of order one to three, each weighted by the share of the
    marginals of ``k`` attributes (at least two) that contain it. ``prior`` is the share where the
    statistics cannot decide.
    """
    d, k = posterior.means.size, max(k, 2)
    pairs = np.triu_indices(d, 1)
    values = [posterior.means, posterior.products[pairs]]
    variances = [posterior.mean_variance, posterior.product_variance[pairs]]
    if third is not None:
        values.append(third.triples.predicted + third.shift)
        variances.append(third.variance)
    moments, variance = np.concatenate(values), np.concatenate(variances)
    members, size = joint.members[: moments.size], moments.size
    estimates, precision = statistics.of(members)
    weight = np.array([comb(k, len(s)) / comb(d, len(s)) for s in members])
    first = (joint.coefficients[:size], joint.sensitivity[:size])
    second = (moments, variance * precision)
    return share_of_first(first, second, estimates, precision, weight, prior)


def share_of_category_joint(
    joint: CategoryJoint,
    statistics: Statistics,
    posterior: Posterior,
    moments: MomentTables,
    k: int,
    prior: float,
) -> tuple[float, float]:
    """Return `share_of_joint` for attributes of any cardinalities.

    ``moments`` has the tables of ``posterior``. An error of a moment counts as much as it adds to
    the squared errors of a marginal's cells.
    """
    features, k = joint.features, max(k, 2)
    d, labels = len(features.cardinalities), features.categories
    above = np.triu_indices(features.size, 1)  # moments of one attribute have precision 0
    (f, f_variance), (two, two_variance) = joint.first_two()
    of_means = (f, f_variance, posterior.means, posterior.mean_variance, statistics.means)
    of_products = (two, two_variance, posterior.products, posterior.product_variance)
    pair_cost = comb(k, 2) / comb(d, 2) / np.outer(labels, labels)
    of_pairs = (statistics.products, statistics.product_precision, pair_cost)
    parts: list[tuple[Floats, ...]] = [
        (*of_means, statistics.mean_precision, comb(k, 1) / comb(d, 1) / labels),
        tuple(values[above] for values in (*of_products, *of_pairs)),
    ]
    for own, (estimate, known) in statistics.blocks.items():
        value, variance = moments.third(own)
        cost = comb(k, 3) / comb(d, 3) / prod(features.cardinalities[i] for i in own)
        even = np.ones_like(value)
        row = (*joint.third(own), value, variance * even, estimate, known * even, cost * even)
        parts.append(tuple(values.ravel() for values in row))
    f, f_variance, g, g_variance, estimates, precision, weight = np.concatenate(parts, axis=1)
    # Sensitivities above 1 are noise of the draws.
    first, second = (f, np.minimum(f_variance * precision, 1.0)), (g, g_variance * precision)
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

    Symbols are those of noise-aware.md, section 7.

    Args:
        first: values of the first model and their derivatives by their own statistics.
        second: the same of the second model.
        estimates: the statistics.
        precision: their inverse variances; statistics with 0 are left out.
        weight: cost of an error of each value; shape (statistics,) all so far.
        prior: the share where the statistics cannot decide.

    Returns:
        The share, and how far the statistics decide it, both from 0 to 1.
    """
    used = precision > 0
    v = 1.0 / precision[used]
    f, g, t, w = first[0][used], second[0][used], estimates[used], weight[used]
    apart = float((w * np.square(f - g)).sum())
    if apart <= 0.0:
        return prior, 0.0
    slope = first[1][used] - second[1][used]
    best = float((w * ((f - g) * (t - g) - v * slope)).sum()) / apart
    variance = float((np.square(w) * v * np.square(f - g)).sum()) / apart**2
    gain = SHARE_VARIANCE / (variance + SHARE_VARIANCE)
    return float(np.clip(gain * best + (1.0 - gain) * prior, 0.0, 1.0)), gain
