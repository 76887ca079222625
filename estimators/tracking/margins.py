"""Follows the shares of each attribute's labels over windows, from all views of a group with it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from calmstream.estimators.arrays import Floats
from calmstream.estimators.domain import Domain
from calmstream.estimators.mechanisms.base import Mechanism
from calmstream.estimators.tracking.candidates import Weighted
from calmstream.estimators.tracking.series import Series
from calmstream.estimators.view import View


class Margins:
    """One row of counter frequencies for each attribute; ``labels`` as of `labels_of`.

    ``period``: windows of a season, or 0; ``restart``: as `LevelCandidates` has it for one view.
    """

    def __init__(
        self,
        domain: Domain,
        views: Sequence[View],
        mechanism: Mechanism,
        labels: NDArray[np.int64],
        period: int,
        restart: float,
    ) -> None:
        sizes = np.array(domain.cardinalities)
        width = int(sizes.max())
        # From a label's place among all labels to its place among rows of equal width.
        shift = np.arange(len(sizes)) * width - np.cumsum([0, *sizes])[:-1]
        self.holds = np.zeros((len(sizes), len(views)), bool)
        self._places = labels.copy()  # of each counter, among the labels of all rows
        # Counters of anything but cells say nothing of single attributes.
        for number, view in enumerate(views if len(labels) else ()):
            self.holds[list(view.attributes), number] = True
            self._places[:, number] += shift[list(view.attributes)][:, None]
        self._each = mechanism.cells / sizes  # cells of a view in which a label is
        directions = np.maximum(sizes - float(mechanism.fixed_total), 1.0)  # free shares of a row
        self.series = Series(restart / self._each, directions, width, period)
        self._n, self._counts = np.zeros(len(sizes)), np.zeros((len(sizes), width))
        self._score = np.zeros_like(self.series.evidence)

    def score(self, window: int, n: Floats, counts: Floats, noise: Floats) -> Floats:
        """Return a window's log density by candidate, from each view's reports, counters, noise."""
        sums = np.zeros(self._counts.size)
        for places in self._places:
            sums += np.bincount(places.ravel(), counts.ravel(), sums.size)
        self._n, self._counts = self.holds @ n, sums.reshape(self._counts.shape)
        seen = Weighted(self._n, self._counts / np.maximum(self._n, 1.0)[:, None])
        # A label's variance with one report: its number of cells times its views' mean noise.
        own = self._each * (self.holds @ noise) / np.maximum(self.holds.sum(axis=1), 1)
        expected = self.series.predict(window)
        self._score = self.series.score(seen, expected, np.maximum(own, 1e-12))
        return self._score

    def add(self, window: int, anew: NDArray[np.bool_]) -> None:
        """Add the window that was scored last; the attributes of ``anew`` forget the past."""
        self.series.add(window, self._n, self._counts, anew, self._score)


def labels_of(domain: Domain, views: Sequence[View], width: int) -> NDArray[np.int64]:
    """Return the label of each counter, by its place among all labels: (axes, views, width).

    Empty where counters are no cells of tables of equally many attributes.
    """
    axes = {len(view.attributes) for view in views}
    if len(axes) != 1 or any(v.kind != "cell" or v.cells(domain) != width for v in views):
        return np.zeros((0, len(views), width), np.int64)
    first = np.cumsum([0, *domain.cardinalities])
    rows = []
    for view in views:
        places = np.unravel_index(np.arange(width), domain.shape(view.attributes))
        rows.append([first[a] + p for a, p in zip(view.attributes, places, strict=True)])
    return np.array(rows, np.int64).transpose(1, 0, 2)
