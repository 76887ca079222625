"""The tracker: discounted tallies of every window, with discounts that are learnt from the counts.

Theory, measurements and limits: docs/continuous.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calmstream.estimators.mechanisms.base import Mechanism
from calmstream.estimators.plan import Plan
from calmstream.estimators.tally import Tally
from calmstream.estimators.tracking.candidates import (
    DISCOUNTS,
    Candidates,
    Floats,
    LevelCandidates,
    SeasonCandidates,
    Weighted,
)
from calmstream.estimators.view import View

JUMP = 1000.0
"""Odds against a view's candidates from which a window starts anew."""

MEMORY = 1 - 1 / 256
"""What evidence keeps from window to window, so that a change of habits is learnt."""

_DAY, _WEEK = 86_400, 7 * 86_400
_MOST_PHASES = 24
_ROUNDS = 8
# Logarithm of the least weight, so that no candidate is lost for good.
_LEAST = -100.0
# Standard deviations.
_ALARM = 4.0
_SURE = 3.0
_FEWEST = 100
# Share of the variance from which sampling counts where devices report again.
_SMALL = 0.2


@dataclass(frozen=True, slots=True)
class Current:
    """What is known of the window that was added last.

    Attributes:
        tallies: one per group, in whole reports: what an ordinary window with these reports would
            have counted. Every method takes them.
        discounts: shape (views of all groups,): effective discount of each view, 1 - n / reports.
        windows: shape as discounts: reports that the table is worth over those of a mean window.
        misfit: shape as discounts: factor of the variance because of misfit, at least 1.
        variance: shape as discounts: factor of the variance for all reasons, at least 1.
        repeats: shape as discounts: reports of one device among those that a table is worth, at
            least 1.
        anew: shape as discounts: the window in which a view began anew; the first without a jump.
        since: the first window that was added.
        missing: number of later windows that were not.
    """

    tallies: tuple[Tally, ...]
    discounts: Floats
    windows: Floats
    misfit: Floats
    variance: Floats
    repeats: Floats
    anew: NDArray[np.int64]
    since: int
    missing: int

    def to_json(self) -> dict[str, Any]:
        """Return what the manifest of a current set states (`wire.snapshot.Manifest`)."""
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
    """Follows the tables of a plan. Not safe for use from several threads.

    A function of the windows that were added, in their order. Cost of a window: O(candidates x
    counters), whatever the number of earlier windows; memory the same.

    Args:
        discounts: discounts of the levels.
        seasons: whether the day of the week or the hour of the day is a candidate.
    """

    def __init__(
        self, plan: Plan, discounts: tuple[float, ...] = DISCOUNTS, *, seasons: bool = True
    ) -> None:
        period = phases(plan.window) if seasons else 0
        self._first, self._last, self._added = 0, -1, 0
        self._groups = [
            _Group(mechanism, discounts, period, _pooled(plan, group.views), _cycle(plan))
            for group, mechanism in zip(plan.groups, plan.mechanisms, strict=True)
        ]
        # Per group and attribute of its views: the label of each counter, shape (views, width).
        self._labels = [
            _labels(plan, group.views, mechanism.width)
            for group, mechanism in zip(plan.groups, plan.mechanisms, strict=True)
        ]
        self._label_count = sum(plan.domain.cardinalities)

    def add(self, window: int, tallies: Sequence[Tally]) -> None:
        """Add the tallies of a window, one per group; windows ascend, and some may be missing."""
        self._first = window if self._last < 0 else self._first
        self._last, self._added = window, self._added + 1
        prior = self._common()
        for group, tally in zip(self._groups, tallies, strict=True):
            group.add(window, tally, prior)

    def current(self) -> Current:
        """Return what is known of the window that was added last."""
        prior, lags = self._common(), self._lags()
        found = [
            group.current(prior, lags[labels].max(axis=(0, 2)) if len(labels) else np.zeros(1))
            for group, labels in zip(self._groups, self._labels, strict=True)
        ]
        tallies = tuple(one[0] for one in found)
        discounts, windows, misfit, variance, repeats = (
            np.concatenate([one[i] for one in found]) for i in range(1, 6)
        )
        anew = np.concatenate([group.anew for group in self._groups])
        missing = self._last + 1 - self._first - self._added
        return Current(
            tallies, discounts, windows, misfit, variance, repeats, anew, self._first, missing
        )

    def _lags(self) -> Floats:
        """Return how far tables lag behind a label, as a share of a window's variance: (labels,).

        A discount follows the whole view. Where few of its cells move, these cells lag, and their
        distances from the predictions have one sign for several windows. The mean product of two
        distances in a row is the square of the lag; all views with the label say it together.
        """
        products, counts = np.zeros(self._label_count), np.zeros(self._label_count)
        for group, labels in zip(self._groups, self._labels, strict=True):
            for of_axis in labels:
                np.add.at(products, of_axis, group.products)
                np.add.at(counts, of_axis, np.broadcast_to(group.pairs[:, None], of_axis.shape))
        known = np.maximum(counts, 1.0)
        # Products of two normal numbers have long tails, which few of them do not average out.
        known *= known > _FEWEST
        lags: Floats = np.maximum(products - _SURE * np.sqrt(known), 0.0) / np.maximum(known, 1.0)
        lags *= known > 0
        return lags

    def _common(self) -> Floats:
        """Return the candidates' common distribution, shape (candidates,), by empirical Bayes."""
        evidence = np.concatenate([group.evidence for group in self._groups], axis=1)
        likelihood = np.exp(evidence - evidence.max(axis=0))
        common = np.full(len(evidence), 1 / len(evidence))
        for _ in range(_ROUNDS):
            weights = common[:, None] * likelihood
            weights /= weights.sum(axis=0)
            # One view's worth of the uniform distribution beside the views' own.
            common = (weights.sum(axis=1) + 1 / len(common)) / (weights.shape[1] + 1)
        return common


class _Group:
    """The views of one group: its candidates, their evidence, and how well they predict."""

    def __init__(
        self,
        mechanism: Mechanism,
        discounts: tuple[float, ...],
        period: int,
        pooled: Floats,
        cycle: float,
    ) -> None:
        self._pooled, self._cycle, self._sampling = pooled, cycle, _sampling(mechanism)
        views = len(pooled)
        restart = np.full(views, _restart(mechanism))
        self._free = mechanism.width - int(mechanism.fixed_total and mechanism.width > 1)
        self._parts: list[Candidates] = [LevelCandidates(discounts, restart, mechanism.width)]
        if period:
            self._parts.append(SeasonCandidates(period, restart, mechanism.width))
        self.evidence = np.zeros((len(self._predict(0).n), views))
        self._n, self._counts = np.zeros(views), np.zeros((views, mechanism.width))
        self._last_n = np.zeros(views)
        self._windows = np.zeros(views)
        self._squares, self._directions = np.zeros(views), np.zeros(views)
        self.anew = np.full(views, -1)
        # Products of standardised distances of two windows in a row, and their number.
        self._distance = np.zeros((views, mechanism.width))
        self.products, self.pairs = np.zeros((views, mechanism.width)), np.zeros(views)

    def _predict(self, window: int) -> Weighted:
        return _joined([part.predict(window) for part in self._parts])

    def add(self, window: int, tally: Tally, prior: Floats) -> None:
        n, counts = tally.n.astype(float), tally.counts.astype(float)
        some = n > 0
        expected = self._predict(window)
        known = some & (expected.n > 0).any(axis=0)
        self._n += n
        self._counts += counts
        seen, noise = Weighted(n, counts / np.maximum(n, 1.0)[:, None]), self._noise()
        score = self._score(*_apart(seen, expected, noise)) * known
        weights = _weights(self.evidence, prior)
        mixture = _log_sum(np.log(weights) + score)
        anew = known & (score[0] - mixture > np.log(JUMP))
        mixed = _mixed(expected, weights, noise, self._free)
        self._innovate(*_apart(seen, mixed, noise), known & ~anew)
        self.evidence *= MEMORY
        self.evidence += np.where(anew, 0.0, score)
        for part in self._parts:
            part.add(window, n, counts, anew)
        self.anew = np.where(anew | (some & (self.anew < 0)), window, self.anew)
        self._last_n, self._windows = n, self._windows + some

    def _noise(self) -> Floats:
        """Return the variance of one report in one direction of the frequencies: (views,)."""
        f = (self._counts + 0.5) / (self._n + 1.0)[:, None]
        noise: Floats = (f * (1 - f)).clip(0).sum(axis=1) / self._free
        return noise

    def _score(self, distance: Floats, variance: Floats) -> Floats:
        """Return the log density of a window's frequencies: shape (candidates, views)."""
        squares = np.einsum("cvw,cvw->cv", distance, distance)
        score: Floats = -0.5 * (self._free * np.log(variance) + squares / variance)
        return score

    def _innovate(self, distance: Floats, variance: Floats, which: NDArray[np.bool_]) -> None:
        """Note how far a window is from what was expected, in expected squares."""
        squares = np.square(distance).sum(axis=1) / variance
        self._squares = np.where(which, MEMORY * self._squares + squares, self._squares)
        self._directions = np.where(which, MEMORY * self._directions + self._free, self._directions)
        distance = np.where(which[:, None], distance / np.sqrt(variance)[:, None], 0.0)
        pairs = which & self._distance.any(axis=1)
        self.products = MEMORY * self.products + distance * self._distance
        self.pairs = MEMORY * self.pairs + pairs
        self._distance = distance

    def _misfit(self) -> Floats:
        """Return the mean square of the distances where chance does not explain it, else 1."""
        spread = 2 / (9 * np.maximum(self._directions, 1.0))
        ratio = self._squares / np.maximum(self._directions, 1.0)
        # The cube root of a chi-square over its degrees is about normal (Wilson and Hilferty).
        return np.where(np.cbrt(ratio) > 1 - spread + _ALARM * np.sqrt(spread), ratio, 1.0)

    def current(self, prior: Floats, lag: Floats) -> tuple[Tally, Floats, *tuple[Floats, ...]]:
        state = _joined([part.now() for part in self._parts])
        weights = _weights(self.evidence, prior)
        found = _mixed(state, weights, self._noise(), self._free)
        mean_window = np.maximum(self._n / np.maximum(self._windows, 1), 1.0)
        # The variance of a prediction and its window, over that of the table.
        misfit = self._misfit() + lag * (1 + found.n / mean_window)
        # Methods combine views, whose noise is their own. Their drift is not: it stays as it is.
        drift = (weights * np.concatenate([part.drift() for part in self._parts])).sum(axis=0)
        # Devices that come back have fresh noise, but are no new sample.
        repeats = np.maximum(found.n / (self._cycle * mean_window), 1.0)
        sampling = 1 + self._sampling * (repeats - 1)
        variance = misfit * (1 + (self._pooled - 1) * drift * (found.n > 0)) * sampling
        n = np.rint(found.n / variance).astype(np.int64)
        counts = np.rint(found.mean * n[:, None]).astype(np.int64)
        known = np.maximum(found.n, 1.0)
        return (
            Tally(n, counts.clip(0)),
            np.clip(1 - self._last_n / known, 0.0, 1.0),
            found.n / mean_window,
            misfit,
            variance,
            repeats,
        )


def _labels(plan: Plan, views: Sequence[View], width: int) -> NDArray[np.int64]:
    """Return the label of each counter, by its place among all labels: (axes, views, width).

    Empty where counters are no cells of tables of equally many attributes.
    """
    axes = {len(view.attributes) for view in views}
    if len(axes) != 1 or any(v.kind != "cell" or v.cells(plan.domain) != width for v in views):
        return np.zeros((0, len(views), width), np.int64)
    first = np.cumsum([0, *plan.domain.cardinalities])
    rows = []
    for view in views:
        places = np.unravel_index(np.arange(width), plan.domain.shape(view.attributes))
        rows.append([first[a] + p for a, p in zip(view.attributes, places, strict=True)])
    return np.array(rows, np.int64).transpose(1, 0, 2)


def phases(window: int) -> int:
    """Return the phases of a season: hours of a day, days of a week; 0 without a season.

    Args:
        window: length of a window in seconds.
    """
    for season in (_DAY, _WEEK):
        if window < season:
            count, rest = divmod(season, window)
            return count if rest == 0 and count <= _MOST_PHASES else 0
    return 0


def _restart(mechanism: Mechanism) -> float:
    """Return the reports that a guess is worth, which knows only that a table is one of all tables.

    A cell of a table drawn evenly from all tables of L cells has about the variance 1 / L^2.
    """
    if not mechanism.counts_joint:
        return 100.0
    return max(float(mechanism.variance(1).mean()) * mechanism.cells**2, 1.0)


def _pooled(plan: Plan, views: Sequence[View]) -> Floats:
    """Return how many views are about an attribute, as a mean over those of a view: (views,)."""
    known = Counter(a for group in plan.groups for view in group.views for a in view.attributes)
    return np.array([np.mean([known[a] for a in view.attributes]) for view in views])


def _cycle(plan: Plan) -> float:
    """Return the number of windows after which devices report again; infinite if never."""
    return plan.guarantee.windows if plan.guarantee.kind == "w-event" else np.inf


def _sampling(mechanism: Mechanism) -> float:
    """Return the share of the sampling of devices in the variance of a report, 0 if it is small."""
    if not mechanism.counts_joint:
        return 0.0
    sampling = (1 - 1 / mechanism.cells) / mechanism.cells
    share = sampling / (sampling + float(mechanism.variance(1).mean()))
    return share if share > _SMALL else 0.0


def _joined(parts: Sequence[Weighted]) -> Weighted:
    return Weighted(np.concatenate([p.n for p in parts]), np.concatenate([p.mean for p in parts]))


def _apart(seen: Weighted, expected: Weighted, noise: Floats) -> tuple[Floats, Floats]:
    """Return the distance of a window from what was expected, and its variance in a direction."""
    variance = noise * (1 / np.maximum(expected.n, 1e-9) + 1 / np.maximum(seen.n, 1.0))
    return seen.mean - expected.mean, variance


def _weights(evidence: Floats, prior: Floats) -> Floats:
    """Return the probability of each candidate, per view."""
    likelihood = np.exp(np.maximum(evidence - evidence.max(axis=0), _LEAST))
    weights: Floats = prior[:, None] * likelihood
    weights /= weights.sum(axis=0)
    return weights


def _rounded(values: Floats) -> list[float]:
    return [float(f"{value:.4g}") for value in values]


def _log_sum(terms: Floats) -> Floats:
    top = terms.max(axis=0)
    found: Floats = top + np.log(np.exp(terms - top).sum(axis=0))
    return found


def _mixed(state: Weighted, weights: Floats, noise: Floats, free: int) -> Weighted:
    """Return mean and worth of a mixture: the candidates' variances and their distances add up."""
    # A level without memory knows nothing of a window without reports.
    weights = np.where(state.n > 0, weights, 0.0)
    total = weights.sum(axis=0)
    weights = weights / np.where(total > 0, total, 1.0)
    mean = np.einsum("cv,cvw->vw", weights, state.mean)
    spread = np.einsum("cv,cvw->v", weights, np.square(state.mean - mean)) / free
    inverse = (weights / np.maximum(state.n, 1e-9)).sum(axis=0) + spread / np.maximum(noise, 1e-12)
    return Weighted(np.where(total > 0, 1 / np.where(total > 0, inverse, 1.0), 0.0), mean)
