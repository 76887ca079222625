"""The low-rank model about categories of several attributes that hold the same records.

`equal_search` finds such sets of categories. With its probability a set adds its whole dependence
to second moments, and the low-rank model describes the rest. See noise-aware.md, section 5.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import sqrt

import numpy as np

from calmstream.estimators.noise_aware.arrays import Floats
from calmstream.estimators.noise_aware.input.features import Features
from calmstream.estimators.noise_aware.input.statistics import Statistics
from calmstream.estimators.noise_aware.models import low_rank
from calmstream.estimators.noise_aware.models.equal_search import (
    NEARLY,
    Equal,
    Shares,
    between,
    find,
)
from calmstream.estimators.noise_aware.models.lines import Places
from calmstream.estimators.noise_aware.models.posterior import Posterior
from calmstream.estimators.noise_aware.priors import EQUAL_EXCEPTIONS, EQUAL_SLACK


def fit(
    features: Features,
    statistics: Statistics,
    labels: Sequence[Sequence[str]],
    places: Places = (),
    *,
    short: bool = False,
) -> Posterior:
    """Return the posterior of the low-rank model, with the dependence of equal categories.

    ``labels`` are those of the attributes' categories; ``places`` and ``short`` as in
    `low_rank.fit`.
    """
    found = find(features, statistics, labels)
    if not found:
        return low_rank.fit(features, statistics, places, short=short)
    shared = with_common_shares(features, statistics, found)
    posterior = low_rank.fit(features, shared, places, short=short)
    return with_sets(features, statistics, posterior, found)


def with_sets(
    features: Features, statistics: Statistics, posterior: Posterior, found: Sequence[Equal]
) -> Posterior:
    """Return the posterior in which members of a set are equal, with the set's probability.

    A share of the draws, that probability, has the second moments that equality implies, the others
    keep theirs. The mean is mixed in the same proportion.
    """
    products, drawn = posterior.products.copy(), posterior.drawn_products.copy()
    variance = posterior.product_variance.copy()
    random = np.random.default_rng(20180218)  # fixed: equal tallies give equal answers
    for one in found:
        given, w = Given(features, statistics, one), one.probability
        where = np.ix_(given.own, given.own)
        before, spread = products[where], variance[where]
        mean = given.products(posterior.means, before, one.strength)
        spread = spread + w * (given.free - 1.0) * spread + w * given.left
        unsure = float(np.array(one.strengths) @ np.square(NEARLY - one.strength))
        spread += w * unsure * np.square(given.expected)
        spread += w * (1.0 - w) * np.square(mean - before)
        products[where] = np.where(given.pairs, before + w * (mean - before), before)
        variance[where] = np.where(given.pairs, spread, variance[where])
        places = (random.permutation(len(drawn)) + random.random()) / len(drawn)
        for number in np.flatnonzero(places < w):
            old = drawn[number][where]
            noise = np.triu(random.normal(size=old.shape), 1)
            strength = float(random.choice(NEARLY, p=one.strengths))
            new = given.products(posterior.drawn_means[number], old, strength)
            new += np.sqrt(given.left) * (noise + noise.T)
            drawn[number][where] = np.where(given.pairs, new, old)
    return replace(posterior, products=products, product_variance=variance, drawn_products=drawn)


class Given:
    """Second moments of the members of a set, given that they are equal.

    Equality says which records the categories have in common, so margins determine the second
    moments but for the dependence among the other categories of two members, which stays as it is.
    Exceptions make an error of about `EQUAL_EXCEPTIONS` of the covariance, which estimates correct
    as far as their noise allows.

    Attributes:
        own: the members' features.
        pairs: second moments of two members: shape (own, own), as all others.
        left: variances of the errors that exceptions make beyond those of their mean strength.
        expected: covariances without exceptions.
        free: share of the directions of the moments' block that stay as they are.
    """

    def __init__(self, features: Features, statistics: Statistics, one: Equal) -> None:
        """Prepare one set; cost O(own^2)."""
        owner = np.repeat(np.arange(len(features.cardinalities)), features.widths)
        self.own = np.flatnonzero(np.isin(owner, one.attributes))
        where = np.ix_(self.own, self.own)
        self.pairs = between(features)[where]
        # Which features an attribute has, and the directions that equality determines.
        belongs = np.equal.outer(owner[self.own], np.array(one.attributes)).astype(np.float64)
        self._code = np.concatenate(
            [features.codes[i][c] for i, c in zip(one.attributes, one.categories, strict=True)]
        )
        length = np.sqrt(belongs.T @ np.square(self._code))
        self._fixed = belongs * self._code[:, None] / length
        self._odds = one.share / (1.0 - one.share)
        self._known = np.where(self.pairs, statistics.product_precision[where], 0.0)
        self._estimates = statistics.products[where]
        self.expected = self.covariance(statistics.valid_means(features))
        width = belongs.sum(axis=0)
        size = belongs.T @ np.square(EQUAL_EXCEPTIONS * self.expected) @ belongs
        spread = np.where(self.pairs, belongs @ (size / np.outer(width, width)) @ belongs.T, 0.0)
        self._gain = spread * self._known / (1.0 + spread * self._known)
        self.left = spread * (1.0 - self._gain)
        part = 1.0 - 1.0 / (features.categories[self.own] - 1.0)
        self.free = np.outer(part, part)

    def products(self, means: Floats, products: Floats, strength: float = 1.0) -> Floats:
        """Return second moments from means and from second moments without equality.

        Shapes (size,) and (own, own). Only `pairs` have a meaning. ``strength`` is that of the
        dependence, 1 without exceptions.
        """
        implied = np.outer(means[self.own], means[self.own]) + strength * self.covariance(means)
        rest = self._other(np.where(self.pairs, products - implied, 0.0))
        gap = np.where(self._known > 0.0, self._estimates - implied, 0.0)
        return np.asarray(implied + rest + self._gain * (gap - self._other(gap)))

    def covariance(self, means: Floats) -> Floats:
        """Return the covariance of members without exceptions: shapes (size,) to (own, own).

        With share p the features of two members have the covariance ``p / (1 - p) (x - m) (y -
        n)^T``, x and y those of the categories and m and n the means: outside of the categories the
        attributes are independent.
        """
        away = self._code - means[self.own]
        return self._odds * np.outer(away, away)

    def _other(self, moments: Floats) -> Floats:
        """Return the part of second moments that is among other categories."""
        rows = moments - self._fixed @ (self._fixed.T @ moments)
        return np.asarray(rows - (rows @ self._fixed) @ self._fixed.T)


def with_common_shares(
    features: Features, statistics: Statistics, found: Sequence[Equal]
) -> Statistics:
    """Return the statistics with first moments in which the members of a set have one share.

    The share of a member becomes the mean of its own estimate and of those of the others, weighted
    by precision. The precision of its feature grows so far that the direction that moves has the
    variance of that mean. Other directions keep theirs.
    """
    means, precision = statistics.means.copy(), statistics.mean_precision.copy()
    shares = Shares.of(features, statistics)
    for one in found:
        own = shares.places(features, one)
        known = 1.0 / shares.variance[own]
        slack = (EQUAL_SLACK * one.share) ** 2
        rest = known.sum() - known
        others = (known @ shares.share[own] - known * shares.share[own]) / rest
        weight = one.probability / (1.0 / rest + slack)
        moved = (others - shares.share[own]) * weight / (known + weight)
        gain = (known + weight) / known
        for i, category, step, more in zip(
            one.attributes, one.categories, moved, gain, strict=True
        ):
            r, where = features.cardinalities[i], features.slices[i]
            if r == 2:
                means[where] += 2.0 * (1 - 2 * category) * step
                precision[where] *= more
                continue
            change = np.full(r, -1.0 / (r - 1))
            change[category] = 1.0
            means[where] += sqrt(r) * step * change
            precision[where.start + category] *= (more - 1.0 / r) / (1.0 - 1.0 / r)
    return replace(statistics, means=means, mean_precision=precision)
