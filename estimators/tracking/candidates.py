"""Candidate models of how the tables of a group's views move from window to window.

The unit is a *counter frequency*: a view's counters divided by its reports. A prediction worth N
reports has the variance of the mean of N. A *level* with discount d keeps ``N <- d N + n`` and
``C <- d C + counts``, the exact filter of a random walk whose step has 1/d - 1 times the variance
of the posterior (West and Harrison 1997, section 6.3). A *season* keeps one for each phase (day of
the week, hour of the day), and shrinks it to the level of all phases.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from calmstream.estimators.arrays import Floats

DISCOUNTS = (0.0, 0.25, 0.5, 0.75, *(1 - 2.0**-j for j in range(3, 11)), 1.0)  # per window
SEASON_DISCOUNTS = (0.75, 1 - 2.0**-4, 1.0)  # discounts of seasons, per return of a phase
SEASON_SHRINKAGE = (4.0, 64.0, 1024.0)
"""Precisions of a phase's distance from the level, as multiples of that of a restart."""


class Weighted(NamedTuple):
    """Frequencies and the number of reports that they are worth."""

    n: Floats  # (candidates, views)
    mean: Floats  # (candidates, views, width); any value where n is 0


class LevelCandidates:
    """One level for each discount.

    A prediction is worth ``restart`` reports (views,) at least: tables cannot move by more than two
    can differ.
    """

    def __init__(self, discounts: tuple[float, ...], restart: Floats, width: int) -> None:
        self._discount = np.array(discounts)[:, None]
        self._restart = restart
        self._n = np.zeros((len(discounts), len(restart)))
        # The sum of squared weights of all reports; the noise of the mean has the variance q / n^2.
        self._q = np.zeros_like(self._n)
        self._counts = np.zeros((*self._n.shape, width))
        # The last window of all views, and the last one with reports of each.
        self._window, self._last = 0, np.zeros(len(restart), np.int64)

    def predict(self, window: int) -> Weighted:
        """Return what is expected of a window that has not been added."""
        known = np.maximum(self._kept(window) * self._n, self._restart)
        return Weighted(np.minimum(known, self._n), _ratio(self._counts, self._n))

    def add(self, window: int, n: Floats, counts: Floats, anew: NDArray[np.bool_]) -> None:
        """Add a window; the views of ``anew`` forget what came before."""
        kept = np.where(anew, 0.0, np.where(n > 0, self._kept(window), 1.0))
        self._n = kept * self._n + n
        self._q = kept**2 * self._q + n
        self._counts = kept[..., None] * self._counts + counts
        self._window, self._last = window, np.where(n > 0, window, self._last)

    def now(self) -> Weighted:
        """Return the frequencies in the window that was added last."""
        return Weighted(self._kept(self._window) * self._n, _ratio(self._counts, self._n))

    def drift(self) -> Floats:
        """Return the share of drift, not of the reports' noise, in the variance of `now`."""
        return 1 - self._kept(self._window) * self._q / np.maximum(self._n, 1e-300)

    def _kept(self, window: int) -> Floats:
        kept: Floats = self._discount ** (window - self._last)
        return kept


class SeasonCandidates:
    """One for each discount and shrinkage; a phase is a window modulo the period."""

    def __init__(self, period: int, restart: Floats, width: int) -> None:
        views, kinds = len(restart), len(SEASON_DISCOUNTS)
        self._period = period
        self._discount = np.array(SEASON_DISCOUNTS)[:, None]
        self._spread = np.outer(SEASON_SHRINKAGE, restart)
        self._n = np.zeros((period, kinds, views))
        self._q = np.zeros_like(self._n)
        self._counts = np.zeros((*self._n.shape, width))
        self._last = 0

    def predict(self, window: int) -> Weighted:
        kept = self._discount ** self._returns(window)[window % self._period]
        return self._shrunk(window % self._period, kept)

    def add(self, window: int, n: Floats, counts: Floats, anew: NDArray[np.bool_]) -> None:
        kept = self._discount ** self._returns(window)[:, None, None]
        kept = np.where(anew, 0.0, kept)
        self._n *= kept
        self._q *= kept**2
        self._counts *= kept[..., None]
        self._n[window % self._period] += n
        self._q[window % self._period] += n
        self._counts[window % self._period] += counts
        self._last = window

    def now(self) -> Weighted:
        return self._shrunk(self._last % self._period, np.ones_like(self._discount))

    def drift(self) -> Floats:
        phase = self._last % self._period
        found = 1 - self._q[phase] / np.maximum(self._n[phase], 1e-300)
        return np.tile(found, (len(SEASON_SHRINKAGE), 1))

    def _returns(self, window: int) -> NDArray[np.int64]:
        """Return how often each phase has come back since the last window: shape (period,)."""
        phases = np.arange(self._period)
        before = (self._last - phases) // self._period
        found: NDArray[np.int64] = (window - phases) // self._period - before
        return found

    def _shrunk(self, phase: int, kept: Floats) -> Weighted:
        """Return a phase's frequencies, drawn to those of the other phases."""
        others: Floats = self._n.sum(axis=0) - self._n[phase]
        spread = self._spread[:, None]
        prior = spread * others / (spread + others + (others == 0))  # as many of their reports
        counts = self._counts.sum(axis=0) - self._counts[phase]
        level = _ratio(counts, others)
        n = (kept * self._n[phase])[None] + prior
        phased = (kept[..., None] * self._counts[phase])[None]
        mean = _ratio(phased + prior[..., None] * level, n)
        views = self._n.shape[2]
        return Weighted(n.reshape(-1, views), mean.reshape(-1, views, mean.shape[-1]))


def _ratio(counts: Floats, n: Floats) -> Floats:
    found: Floats = counts / np.maximum(n, 1e-300)[..., None]
    return found
