"""The views of one group: how they are followed, and how well that predicts them."""

from __future__ import annotations

from collections import Counter

import numpy as np
from numpy.typing import NDArray

from calmstream.estimators.arrays import Floats
from calmstream.estimators.mechanisms.base import Mechanism
from calmstream.estimators.plan import Plan
from calmstream.estimators.tally import Tally
from calmstream.estimators.tracking.candidates import Weighted
from calmstream.estimators.tracking.margins import Margins, labels_of
from calmstream.estimators.tracking.series import MEMORY, Series, apart, jumps, mixed

_ALARM = 4.0  # standard deviations
_SMALL = 0.2  # share of the variance from which sampling counts where devices report again


class FollowedViews:
    """The views of one group."""

    def __init__(self, plan: Plan, number: int, period: int) -> None:
        mechanism, views = plan.mechanisms[number], plan.groups[number].views
        self._pooled = _pooled(plan, number)
        # The number of windows after which devices report again.
        again = plan.guarantee.kind == "w-event"
        self._cycle = plan.guarantee.windows if again else np.inf
        whole = mechanism.holds(range(len(views[0].attributes)))
        self._sampling = _sampling(mechanism) if whole else 0.0
        count, width, restart = len(views), mechanism.width, _restart(mechanism) if whole else 100.0
        self._free = np.full(count, float(width - int(mechanism.fixed_total and width > 1)))
        self.series = Series(np.full(count, restart), self._free, width, period)
        self.labels = labels_of(plan.domain, views, width)
        self.margins = Margins(plan.domain, views, mechanism, self.labels, period, restart)
        self._n, self._counts = np.zeros(count), np.zeros((count, width))
        self._last_n, self._windows = np.zeros(count), np.zeros(count)
        self._squares, self._directions = np.zeros(count), np.zeros(count)
        self.anew = np.full(count, -1)  # the window in which it began; -1 before its first report
        self._distance = np.zeros((count, width))
        # Products of standardised distances from predictions of two windows in a row; their number.
        self.products, self.pairs = np.zeros((count, width)), np.zeros(count)

    def fastest(self, own: Floats, shared: Floats) -> Floats:
        """Return each candidate's probability: that of the fastest attribute of a view.

        A table is as old as its oldest part. Where no attribute is faster, a view has its own.
        ``own`` is by views' evidence (candidates, views), ``shared`` by attributes'.
        """
        rows = self.margins.holds @ self._n
        ages = _worth(own, self.series.now().n) / np.maximum(self._n, 1.0)
        of_labels = _worth(shared, self.margins.series.now().n) / np.maximum(rows, 1.0)
        by_view = np.where(self.margins.holds, of_labels[:, None], np.inf)
        quick = by_view.min(axis=0) < ages
        return np.where(quick, shared[:, by_view.argmin(axis=0)], own)

    def score(self, window: int, tally: Tally) -> Floats:
        """Count a window in; return what its margins say: shape (candidates, attributes)."""
        n, counts = tally.n.astype(float), tally.counts.astype(float)
        self._n += n
        self._counts += counts
        return self.margins.score(window, n, counts, self._noise())

    def add(
        self, window: int, tally: Tally, weights: Floats, attributes: NDArray[np.bool_]
    ) -> None:
        """Add a window whose margins were scored; ``attributes`` begin anew."""
        n, counts = tally.n.astype(float), tally.counts.astype(float)
        some, expected, noise = n > 0, self.series.predict(window), self._noise()
        known = some & (expected.n > 0).any(axis=0)
        seen = Weighted(n, counts / np.maximum(n, 1.0)[:, None])
        score = self.series.score(seen, expected, noise)
        anew = known & (jumps(score, weights) | (attributes @ self.margins.holds))
        now = mixed(expected, weights, noise, self._free)
        self._innovate(*apart(seen, now, noise), known & ~anew)
        self.series.add(window, n, counts, anew, score)
        self.margins.add(window, attributes)
        self.anew = np.where(anew | (some & (self.anew < 0)), window, self.anew)
        self._last_n, self._windows = n, self._windows + some

    def _noise(self) -> Floats:
        """Return the variance of one report in one direction of the frequencies: (views,)."""
        f = (self._counts + 0.5) / (self._n + 1.0)[:, None]
        # A counter that a report may raise more than once deviates by about its mean at most.
        noise: Floats = np.where(f < 1, f * (1 - f), f * f).sum(axis=1) / self._free
        return noise

    def _innovate(self, distance: Floats, variance: Floats, which: NDArray[np.bool_]) -> None:
        """Note how far a window is from what was expected, in expected squares."""
        squares = np.square(distance).sum(axis=1) / variance
        directions = MEMORY * self._directions + self._free
        self._squares = np.where(which, MEMORY * self._squares + squares, self._squares)
        self._directions = np.where(which, directions, self._directions)
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

    def current(self, weights: Floats, lag: Floats) -> tuple[Tally, *tuple[Floats, ...]]:
        """Return the tally and the arrays of `Current`, in its order."""
        found = mixed(self.series.now(), weights, self._noise(), self._free)
        mean_window = np.maximum(self._n / np.maximum(self._windows, 1), 1.0)
        # The variance of a prediction and its window, over that of the table.
        misfit = self._misfit() + lag * (1 + found.n / mean_window)
        # Methods combine views, whose noise is their own. Their drift is not: it stays as it is.
        drift = (weights * self.series.drift()).sum(axis=0)
        # Devices that come back have fresh noise, but are no new sample.
        repeats = np.maximum(found.n / (self._cycle * mean_window), 1.0)
        sampling = 1 + self._sampling * (repeats - 1)
        variance = misfit * (1 + (self._pooled - 1) * drift * (found.n > 0)) * sampling
        n = np.rint(found.n).astype(np.int64)
        counts = np.rint(found.mean * n[:, None]).astype(np.int64)
        known = np.maximum(found.n, 1.0)
        return (
            Tally(n, counts.clip(0)),
            np.clip(1 - self._last_n / known, 0.0, 1.0),
            found.n / mean_window,
            misfit,
            variance,
            repeats,
            self.anew,
        )


def _restart(mechanism: Mechanism) -> float:
    """Return the reports that a guess is worth, which knows only that a table is one of all tables.

    A cell of a table drawn evenly from all tables of L cells has about the variance 1 / L^2.
    """
    return max(float(mechanism.variance(1).mean()) * mechanism.cells**2, 1.0)


def _worth(weights: Floats, n: Floats) -> Floats:
    """Return the reports that a mixture of candidates is worth: (rows,)."""
    known = weights * (n > 0)
    inverse = (known / np.maximum(n, 1e-9)).sum(axis=0)
    return np.asarray(known.sum(axis=0) / np.maximum(inverse, 1e-300))


def _pooled(plan: Plan, number: int) -> Floats:
    """Return how many views are about an attribute, as a mean over those of a view: (views,)."""
    views = plan.groups[number].views
    known = Counter(a for group in plan.groups for view in group.views for a in view.attributes)
    return np.array([np.mean([known[a] for a in view.attributes]) for view in views])


def _sampling(mechanism: Mechanism) -> float:
    """Return the share of the sampling of devices in the variance of a report, 0 if it is small."""
    sampling = (1 - 1 / mechanism.cells) / mechanism.cells
    share = sampling / (sampling + float(mechanism.variance(1).mean()))
    return share if share > _SMALL else 0.0
