"""The posterior of moments where some attributes have an order.

The margin of such an attribute becomes a mixture: with the probability that its order says
something the smooth margin (`smooth_margin`), else the margin of the categories, which has the
same sums over wide blocks of levels (`wide_sums`). Dependence is modelled between merged levels
(`merged`). See noise-aware.md, section 11.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from calmstream.estimators.noise_aware.arrays import Floats
from calmstream.estimators.noise_aware.input.features import Features
from calmstream.estimators.noise_aware.input.ordered import Levels, MarginEstimate, OrderedMargins
from calmstream.estimators.noise_aware.input.statistics import Statistics
from calmstream.estimators.noise_aware.models import equal_categories, low_rank, smooth_margin
from calmstream.estimators.noise_aware.models.inside_merged import with_pairs
from calmstream.estimators.noise_aware.models.merged import Margin, Merged
from calmstream.estimators.noise_aware.models.posterior import Posterior
from calmstream.estimators.noise_aware.models.smooth_margin import SmoothMargin
from calmstream.estimators.noise_aware.models.wide_sums import read_signs, with_sums_of
from calmstream.estimators.noise_aware.priors import LEVEL_SHARE, SHARE_VARIANCE

LEAST_SHARE = 0.05
"""Part of the even table in the table at which covariances are taken."""

SELECTION = 1.5
"""Sensitivity of the smooth margin to its estimate, in units of its posterior variance. Fits to
estimates with fresh noise vary more than the draws of one fit: see benchmarks/findings.md.
"""


def fit(
    features: Features,
    statistics: Statistics,
    ordered: OrderedMargins,
    labels: Sequence[Sequence[str]],
) -> Posterior:
    """Return the posterior of the moments, with smooth margins of attributes that have an order.

    ``labels`` are those of the attributes' categories.

    Attributes without an order, and those without any report, have the margins of categories.
    """
    if not ordered.levels:
        return equal_categories.fit(features, statistics, labels)
    random = np.random.default_rng(20200614)  # fixed: equal tallies give equal answers
    means = statistics.valid_means(features)
    rough = {i: features.margin(i, means) for i in ordered.levels}
    smooth = _smooth(rough, ordered, random)
    rough |= {i: found[1].mean for i, found in smooth.items() if found is not None}
    merged = Merged.of(features, ordered.levels, rough)
    short = features.size > low_rank.LARGE
    posterior = equal_categories.fit(
        merged.features,
        merged.statistics(statistics),
        merged.names(labels),
        merged.places(ordered.levels),
        short=short,
    )
    for i, margin in rough.items():
        if merged.merges(i):
            statistics = with_pairs(merged, statistics, posterior, margin, i)
    margins = {
        i: mixed(
            merged.with_shares(posterior, i, plain),
            smooth[i],
            ordered.levels[i],
            random,
        )
        for i, plain in _of_categories(features, statistics, ordered).items()
    }
    return merged.expanded(posterior, margins)


def _of_categories(
    features: Features, statistics: Statistics, ordered: OrderedMargins
) -> dict[int, Margin]:
    """Return the margins of all attributes with an order as if there were none."""
    places = np.concatenate([np.arange(features.size)[features.slices[i]] for i in ordered.levels])
    own = Features(tuple(features.cardinalities[i] for i in ordered.levels))
    none = np.zeros((own.size, own.size))
    first = Statistics(statistics.means[places], statistics.mean_precision[places], none, none, {})
    means, drawn = low_rank.fit_margins(own, first)
    found = {}
    for place, i in enumerate(ordered.levels):
        mean = np.maximum(own.margin(place, means), 0.0)
        found[i] = Margin(mean / mean.sum(), own.margin(place, drawn))
    return found


Smooth = tuple[MarginEstimate, SmoothMargin] | None
"""An estimate and the smooth margin that follows from it; None without any report."""


def _smooth(
    rough: Mapping[int, Floats], ordered: OrderedMargins, random: np.random.Generator
) -> dict[int, Smooth]:
    """Return the smooth margins of all attributes; covariances are taken near ``rough``."""
    found: dict[int, tuple[MarginEstimate, smooth_margin.Candidates]] = {}
    for i, margin in rough.items():
        expected = margin * (1.0 - LEAST_SHARE) + LEAST_SHARE / margin.size
        estimate, levels = ordered.estimate(i, expected), ordered.levels[i]
        if estimate is not None:
            estimate = estimate.of(levels.codes)
            found[i] = estimate, smooth_margin.Candidates(estimate, levels)
    smooth: dict[int, Smooth] = dict.fromkeys(rough)
    if found:
        evidence = np.stack([candidates.evidence for _, candidates in found.values()])
        prior = smooth_margin.common_prior(evidence)
        for i, (estimate, candidates) in found.items():
            smooth[i] = estimate, candidates.posterior(prior, random)
    return smooth


def mixed(plain: Margin, found: Smooth, levels: Levels, random: np.random.Generator) -> Margin:
    """Return a mixture of a smooth margin and that of categories, ``plain``.

    The margin of categories reads signs and has the wide sums of the smooth one before: its own
    would have more noise. ``found`` is in the order of ``levels``, all others in that of codes.
    """
    if found is None:
        return plain
    estimate, smooth = found
    plain = plain.of(levels.codes)
    if estimate.signs is not None:
        plain = read_signs(plain, estimate.signs, random)
    plain = with_sums_of(plain, Margin(smooth.mean, smooth.draws), levels.count)
    share = share_of_smooth(estimate, smooth, plain.mean, plain.drawn)
    mean, drawn = share * smooth.mean + (1.0 - share) * plain.mean, plain.drawn.copy()
    # As many draws are smooth as have that probability.
    places = (np.arange(len(drawn)) + random.random()) / len(drawn)
    taken = random.permutation(places) < share
    which = random.permutation(np.arange(len(drawn)) % len(smooth.draws))[taken]
    drawn[taken] = smooth.draws[which]
    return Margin(mean, drawn).of(np.argsort(levels.codes))


def share_of_smooth(
    estimate: MarginEstimate, smooth: SmoothMargin, plain: Floats, drawn: Floats
) -> float:
    """Return the weight of the smooth margin that has the least expected squared error, 0 to 1.

    It is an unbiased estimate (Stein 1981), which is shrunk towards the prior weight as far as it
    is noisy. ``plain`` and ``drawn`` are the margin of categories, shape (labels,), and its
    posterior draws, (draws, labels).
    """
    gap = smooth.mean - plain
    square = float(gap @ gap)
    if square == 0.0:
        return LEVEL_SHARE
    # The sum of the sensitivities to the estimate, in units of its covariance.
    freedom = float((SELECTION * smooth.draws.var(axis=0) - drawn.var(axis=0)).sum())
    best = (float(gap @ (estimate.table - plain)) - freedom) / square
    variance = float(gap @ np.linalg.solve(estimate.precision, gap)) / square**2
    known = SHARE_VARIANCE / (SHARE_VARIANCE + variance)
    return float(np.clip(known * best + (1.0 - known) * LEVEL_SHARE, 0.0, 1.0))
