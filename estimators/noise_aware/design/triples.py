"""Views of three categorical attributes: what they add to precisions, and what that gains."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from math import comb

import numpy as np

from calmstream.estimators.domain import Attributes
from calmstream.estimators.noise_aware.arrays import Floats
from calmstream.estimators.numerics.subsets import sets_up_to

MAX_CELLS = 1 << 17
"""Maximum number of cells of all these views together."""

MAX_SETS = 1024
"""Maximum number of these views."""


class TripleViews:
    """All sets of three attributes, or none where there are too many.

    Attributes:
        sets: the sets, ascending.
        single, pair: which attributes and which pairs each set holds: shape (3, sets) both.
    """

    def __init__(
        self, cardinalities: Sequence[float], information: Callable[[float], float], scale: float
    ) -> None:
        """Prepare the sets.

        Args:
            cardinalities: numbers of categories.
            information: returns the precision that all reports would give to one coefficient of a
                view with that many cells.
            scale: prior deviation of a coefficient of order three beyond what pairs predict.
        """
        d, r = len(cardinalities), np.array(cardinalities, np.float64)
        self.sets: tuple[Attributes, ...] = ()
        if comb(d, 3) <= MAX_SETS:
            self.sets = tuple(combinations(range(d), 3))
        self.single = np.array(self.sets, np.intp).reshape(-1, 3).T
        cells = r[self.single].prod(axis=0)
        if cells.sum() > MAX_CELLS:
            self.sets, self.single, cells = (), self.single[:, :0], cells[:0]
        number = {pair: n for n, pair in enumerate(sets_up_to(d, 2).members[d:])}
        held = [[number[pair] for pair in combinations(own, 2)] for own in self.sets]
        self.pair = np.array(held, np.intp).reshape(-1, 3).T
        self._information = np.array([information(c) for c in cells.tolist()])
        self._energy = scale**2
        self._free = ((r - 1.0) / r)[self.single].prod(axis=0)
        self._mean_cells, self._all = float(np.exp(np.log(r).mean())), comb(d, 3)

    def precisions(self, shares: Floats, d: int, pairs: int) -> tuple[Floats, Floats, Floats]:
        """Return what shares, (sets,), add to precisions of order 1, (d,), 2, (pairs,), and 3."""
        own = shares * self._information
        held = np.tile(own, 3)
        first = np.asarray(np.bincount(self.single.ravel(), held, d), np.float64)
        return first, np.asarray(np.bincount(self.pair.ravel(), held, pairs), np.float64), own

    def slope(self, own: Floats, k: int) -> Floats:
        """Return minus the slopes of the expected error of a k-way table by precisions of order 3.

        Shape (sets,) both. The error is the sum of ``weight energy / (1 + energy own)``.
        """
        shrink = self._energy / (1.0 + self._energy * own)
        return np.asarray(self._weight(k) * np.square(shrink))

    def unpredicted(self, k: int) -> float:
        """Return the expected error of a k-way table from order three without any report on it."""
        return float(self._weight(k).sum()) * self._energy

    def left(self, own: Floats, k: int) -> float:
        """Return the expected error of a k-way table from order three, given its precisions."""
        return float((self._weight(k) * self._energy / (1.0 + self._energy * own)).sum())

    def _weight(self, k: int) -> Floats:
        weight = comb(k, 3) / max(self._all, 1) * self._mean_cells ** (3 - k)
        return np.asarray(weight * self._free)

    def unknown(self, own: Floats) -> float:
        """Return the share of the prior variance of order three that precisions ``own`` leave."""
        return float(np.mean(1.0 / (1.0 + self._energy * own))) if self.sets else 1.0

    def gain(self, first: Floats, second: Floats, third: Floats) -> Floats:
        """Return by how much a share of users on each set reduces the error: shape (sets,).

        ``first``, ``second`` and ``third`` are minus the slopes of the error by the precisions.
        """
        inside = first[self.single].sum(axis=0) + second[self.pair].sum(axis=0) + third
        return np.asarray(inside * self._information)
