"""What pair tables say about single levels inside of merged levels.

A cell of a pair table is the product of a label's probability and of what the model of merged
levels says about the other attribute given the label's merged level. So each cell estimates the
probability, and a frequent label of the other attribute tells much more than a sum over all of its
labels. See noise-aware.md, section 11.
"""

from __future__ import annotations

from dataclasses import replace
from math import sqrt

import numpy as np

from calmstream.estimators.noise_aware.arrays import Floats
from calmstream.estimators.noise_aware.input.statistics import Statistics
from calmstream.estimators.noise_aware.models.merged import Merged
from calmstream.estimators.noise_aware.models.posterior import Posterior

ROUNDS = 2
"""Rounds in which the size of what the model of merged levels does not explain is found."""


def with_pairs(
    merged: Merged, statistics: Statistics, posterior: Posterior, margin: Floats, i: int
) -> Statistics:
    """Return statistics whose means of attribute i contain what pairs say about single levels.

    ``posterior`` is that of the merged levels; ``margin`` is about that of the labels, shape
    (labels,). The answer
    is meant for how a merged level's probability is shared: what pairs say about the merged levels
    themselves is in the posterior. Cost: O(labels · merged size · size).
    """
    own = merged.labels.slices[i]
    values, precision = _means(merged, statistics, posterior, margin, i)
    total = statistics.mean_precision[own] + precision
    mean, known = statistics.means.copy(), statistics.mean_precision.copy()
    mean[own] += precision / np.maximum(total, 1e-300) * (values - mean[own])
    known[own] = total
    return replace(statistics, means=mean, mean_precision=known)


def _means(
    merged: Merged, statistics: Statistics, posterior: Posterior, margin: Floats, i: int
) -> tuple[Floats, Floats]:
    """Return estimates of the means of attribute i and their precisions: shape (labels,) both.

    Each moment of a label x and a merged level Y is linear in the label's mean: ``slope m_x +
    level``. What is not explained has the variance ``excess s_x^2 s_Y^2``, s the deviations.
    """
    moments, precision = merged.half_merged(statistics, i)
    slope, level = _lines(merged, posterior, i)
    known = precision > 0.0
    noise = 1.0 / np.where(known, precision, 1.0)
    size = _squares(merged, posterior, margin, i)
    value, excess = np.zeros(len(moments)), 0.0
    for number in range(ROUNDS + 1):
        weight = np.where(known, 1.0 / (noise + excess * size), 0.0)
        total = (weight * slope * slope).sum(axis=1)
        value = (weight * slope * (moments - level)).sum(axis=1) / np.maximum(total, 1e-300)
        if number < ROUNDS:
            gap = moments - value[:, None] * slope - level
            # The share of a moment's noise that the fitted mean takes away.
            taken = weight * slope * slope / np.maximum(total, 1e-300)[:, None]
            free = float((known * (1.0 - taken)).sum())
            lever = float((weight * size * (1.0 - taken)).sum())
            missing = float((weight * gap * gap).sum()) - free
            excess = max(excess + missing / lever, 0.0) if lever > 0.0 else 0.0
    return value, total


def _lines(merged: Merged, posterior: Posterior, i: int) -> tuple[Floats, Floats]:
    """Return slopes and levels of the moments of labels and merged levels, by the label's mean.

    Shape (labels, merged size) both. With P_X the probability of the merged level X of label x, the
    covariance of x and Y is that of X and Y times p_x / P_X.
    """
    r, parent = merged.labels.cardinalities[i], merged.parents[i]
    own, scale = merged.features.slices[i], sqrt(merged.features.cardinalities[i] / r)
    means = posterior.means
    covariance = posterior.products[own] - means[own, None] * means
    shares = np.maximum(merged.features.margin(i, means), 1e-9)
    given = (covariance / (scale * sqrt(r) * shares[:, None]))[parent]
    return means - merged.offsets + given, given / sqrt(r)


def _squares(merged: Merged, posterior: Posterior, margin: Floats, i: int) -> Floats:
    """Return products of the variances of labels and of merged levels: (labels, merged size)."""
    r, shares = merged.labels.cardinalities[i], np.maximum(margin, 1e-6)
    labels = r * shares * (1.0 - shares) / sqrt(r - 1.0)
    levels = np.maximum(merged.features.variance(posterior.means), 1e-4)
    return np.outer(labels, levels * np.square(merged.features.unit))
