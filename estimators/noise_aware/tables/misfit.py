"""How far the fitted moments are from the statistics, beyond what their posterior variance says.

The squared error of fitted moments has an estimate that no prior enters (Stein 1981). Where it
exceeds the stated variance, the standard errors of tables grow; they never shrink. See
noise-aware.md, section 8.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from math import sqrt

import numpy as np

from calmstream.estimators.domain import Attributes
from calmstream.estimators.noise_aware.arrays import Flags, Floats
from calmstream.estimators.noise_aware.input.features import Features
from calmstream.estimators.noise_aware.input.statistics import Statistics
from calmstream.estimators.noise_aware.priors import EXCESS_VARIANCE


@dataclass(frozen=True, slots=True, eq=False)
class Fitted:
    """Fitted moments of one order, first or second: arrays of shape (size,) or (size, size)."""

    values: Floats
    posterior: Floats  # Variances; over a statistic's own they are its sensitivity
    stated: Floats  # Variances that standard errors of tables contain


@dataclass(frozen=True, slots=True, eq=False)
class Misfit:
    """By how much the variances of tables are multiplied.

    Attributes:
        ratios: of means and of second moments, at least 1.
        means: shape (attributes,), the stated variance of each attribute's means.
        pairs: shape (attributes, attributes), the same of second moments.
        judged: shape (attributes,), the attributes that were compared with statistics.
    """

    ratios: tuple[float, float]
    means: Floats
    pairs: Floats
    judged: Flags

    def factor(self, attributes: Attributes) -> float:
        """Return the number, at least 1, by which a table's standard errors are multiplied.

        Its square is the mean of both ratios, weighted by the stated variances of the table's
        moments. Moments of attributes that are not judged have ratio 1.
        """
        own = list(attributes)
        first, second = (ratio - 1.0 for ratio in self.ratios)
        judged, means = self.judged[own], self.means[own]
        pairs = np.triu(self.pairs[np.ix_(own, own)], 1)
        total = float(means.sum() + pairs.sum())
        if total <= 0.0:
            return 1.0
        more = first * means[judged].sum() + second * pairs[np.ix_(judged, judged)].sum()
        return sqrt(1.0 + float(more) / total)


def measure(
    moments: tuple[Fitted, Fitted],
    statistics: Statistics,
    features: Features,
    left_out: Collection[int] = (),
) -> Misfit:
    """Compare fitted first and second moments with the statistics; cost O(size^2).

    The margins of attributes in ``left_out`` were not fitted to these statistics.
    """
    judged = ~np.isin(np.arange(len(features.cardinalities)), list(left_out))
    used = np.repeat(judged, features.widths)
    # The features of a categorical attribute add up to 0, so they have one free direction less.
    free = np.where(features.binary, 1.0, 1.0 - 1.0 / features.categories)
    one, two = moments
    first = excess_ratio(
        one, statistics.means, np.where(used, statistics.mean_precision, 0.0), free
    )
    above = np.triu(np.outer(used, used), 1)
    second = excess_ratio(
        two,
        statistics.products,
        np.where(above, statistics.product_precision, 0.0),
        np.outer(free, free),
    )
    starts = [own.start for own in features.slices]
    pairs = np.add.reduceat(np.add.reduceat(two.stated, starts, axis=0), starts, axis=1)
    return Misfit((first, second), np.add.reduceat(one.stated, starts), pairs, judged)


def excess_ratio(fitted: Fitted, estimates: Floats, precision: Floats, free: Floats) -> float:
    """Return how often as large as stated the squared error of moments is, at least 1.

    With f the fitted values, t the estimates and v their variances, ``sum (f - t)^2 - v +
    2 v df/dt`` estimates the sum of squared errors. It is unbiased if v is the variance of the
    estimates and their errors are not correlated. Correlated errors, and in large views v of even
    tables, make it rather too small. Its ratio to the stated variance is shrunk towards 1 by its
    own noise.

    Args:
        fitted: the fitted moments.
        estimates: the statistics.
        precision: their inverse variances per free direction; those with 0 are left out.
        free: free directions per moment, from 0 to 1; shape of the moments all.
    """
    used = precision > 0
    stated = float(fitted.stated[used].sum())
    if stated <= 0.0:
        return 1.0
    part, weight = free[used], precision[used]
    noise = part / weight
    moved = np.minimum(fitted.posterior[used], noise)  # v df/dt
    gap = np.square(fitted.values[used] - estimates[used])
    ratio = float((gap - noise + 2.0 * moved).sum()) / stated
    expected = np.maximum(noise - 2.0 * moved + fitted.stated[used], 0.0)
    variance = 2.0 * float((np.square(expected) / part).sum()) / stated**2
    return 1.0 + max(ratio - 1.0, 0.0) * EXCESS_VARIANCE / (EXCESS_VARIANCE + variance)
