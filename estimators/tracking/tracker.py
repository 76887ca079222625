"""The tracker: discounted tallies of every window, with discounts that are learnt from the counts.

Theory, measurements and limits: docs/continuous.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calmstream.estimators import methods
from calmstream.estimators.arrays import Floats
from calmstream.estimators.methods.base import Model
from calmstream.estimators.methods.widened import widened
from calmstream.estimators.plan import Plan
from calmstream.estimators.tally import Tally
from calmstream.estimators.tracking.series import jumps
from calmstream.estimators.tracking.views import FollowedViews

_DAY, _WEEK = 86_400, 7 * 86_400
_MOST_PHASES = 24
_ROUNDS = 8
_SURE = 3.0  # standard deviations
_FEWEST = 100
_LEAST = -100.0  # logarithm of the least weight, so that no candidate is lost for good


@dataclass(frozen=True, slots=True)
class Current:
    """What is known of the window that was added last. Arrays: (views of all groups,)."""

    since: int  # the first window that was added
    missing: int  # number of later windows that were not
    tallies: tuple[Tally, ...]  # per group, what an ordinary window with these reports would count
    discounts: Floats  # effective: 1 - n / reports
    windows: Floats  # reports that a table is worth over those of a mean window
    misfit: Floats  # factor of the variance because of misfit, at least 1
    variance: Floats  # factor of the variance for all reasons, at least 1
    repeats: Floats  # reports of one device among those that a table is worth, at least 1
    anew: NDArray[np.int64]  # the window in which a view began anew

    def model(self, plan: Plan) -> Model:
        """Return the plan's method fitted to the tallies, with errors grown by `variance`."""
        views = sum(len(group.views) for group in plan.ordinary.groups)
        reports = np.concatenate([tally.n for tally in self.tallies])[:views].astype(float)
        fitted = methods.fit(plan, self.tallies)
        return widened(fitted, plan.ordinary, self.variance[:views], reports)

    def reduced(self) -> list[Tally]:
        """Return tallies of as many reports as have the whole variance."""
        ends = np.cumsum([len(tally.n) for tally in self.tallies])[:-1]
        found = []
        for tally, factor in zip(self.tallies, np.split(self.variance, ends), strict=True):
            n = np.rint(tally.n / factor).astype(np.int64)
            share = n / np.maximum(tally.n, 1)
            found.append(Tally(n, np.rint(tally.counts * share[:, None]).astype(np.int64)))
        return found

    def to_json(self) -> dict[str, Any]:
        return {
            "since": self.since,
            "missing": self.missing,
            "misfit": bool((self.misfit > 1).any()),
            "reports": [int(n) for tally in self.tallies for n in tally.n],
            "windows": _rounded(self.windows),
            "discount": _rounded(self.discounts),
            "variance": _rounded(self.variance),
            "repeats": _rounded(self.repeats),
            "anew": np.maximum(self.anew, 0).tolist(),
        }


class Tracker:
    """Follows the tables of a plan, as a function of the windows added, in their order.

    Not safe for use from several threads. Cost of a window: O(candidates x counters).
    """

    def __init__(self, plan: Plan) -> None:
        self._first, self._last, self._added = 0, -1, 0
        period = phases(plan.window)
        self._groups = [FollowedViews(plan, number, period) for number in range(len(plan.groups))]
        self._label_count = sum(plan.domain.cardinalities)

    def add(self, window: int, tallies: Sequence[Tally]) -> None:
        """Add the tallies of a window, one per group; windows ascend, and some may be missing."""
        self._first = window if self._last < 0 else self._first
        self._last, self._added = window, self._added + 1
        groups = list(zip(self._groups, tallies, strict=True))
        scores = [group.score(window, tally) for group, tally in groups]
        # All groups together say whether an attribute starts anew.
        weights = self._weights()
        anew = jumps(np.sum(scores, axis=0), _posterior(self._shared()))
        for (group, tally), own in zip(groups, weights, strict=True):
            group.add(window, tally, own, anew)

    def current(self) -> Current:
        lags = self._lags()
        found = [
            group.current(
                weights,
                lags[group.labels].max(axis=(0, 2)) if len(group.labels) else np.zeros(1),
            )
            for group, weights in zip(self._groups, self._weights(), strict=True)
        ]
        tallies, *arrays = zip(*found, strict=True)
        missing = self._last + 1 - self._first - self._added
        return Current(self._first, missing, tallies, *map(np.concatenate, arrays))

    def _lags(self) -> Floats:
        """Return how far tables lag behind a label, as a share of a window's variance: (labels,).

        A discount follows the whole view. Where few of its cells move, these lag: their distances
        from the predictions have one sign for several windows. The mean product of two in a row is
        the square of the lag; all views with the label say it together.
        """
        products, counts = np.zeros(self._label_count), np.zeros(self._label_count)
        for group in self._groups:
            for of_axis in group.labels:
                np.add.at(products, of_axis, group.products)
                np.add.at(counts, of_axis, np.broadcast_to(group.pairs[:, None], of_axis.shape))
        known = np.maximum(counts, 1.0)
        # Products of two normal numbers have long tails, which few of them do not average out.
        known *= known > _FEWEST
        lags: Floats = np.maximum(products - _SURE * np.sqrt(known), 0.0) / np.maximum(known, 1.0)
        lags *= known > 0
        return lags

    def _shared(self) -> Floats:
        return np.asarray(np.sum([group.margins.series.evidence for group in self._groups], axis=0))

    def _weights(self) -> list[Floats]:
        """Return the probability of each candidate, per view: an array for each group."""
        shared = _posterior(self._shared())
        own = np.concatenate([group.series.evidence for group in self._groups], axis=1)
        ends = np.cumsum([group.series.evidence.shape[1] for group in self._groups])[:-1]
        views = np.split(_posterior(own), ends, axis=1)
        return [g.fastest(w, shared) for g, w in zip(self._groups, views, strict=True)]


def _posterior(evidence: Floats) -> Floats:
    """Return each candidate's probability per row, whose prior all rows share (empirical Bayes)."""
    likelihood = np.exp(evidence - evidence.max(axis=0))
    common = np.full(len(evidence), 1 / len(evidence))
    for _ in range(_ROUNDS):
        weights = common[:, None] * likelihood
        weights /= weights.sum(axis=0)
        # One row's worth of the uniform distribution beside the rows' own.
        common = (weights.sum(axis=1) + 1 / len(common)) / (weights.shape[1] + 1)
    likelihood = np.exp(np.maximum(evidence - evidence.max(axis=0), _LEAST))
    found: Floats = common[:, None] * likelihood
    found /= found.sum(axis=0)
    return found


def phases(window: int) -> int:
    """Return the phases of a season for windows of so many seconds; 0 without a season."""
    for season in (_DAY, _WEEK):
        if window < season:
            count, rest = divmod(season, window)
            return count if rest == 0 and count <= _MOST_PHASES else 0
    return 0


def _rounded(values: Floats) -> list[float]:
    return [float(f"{value:.4g}") for value in values]
