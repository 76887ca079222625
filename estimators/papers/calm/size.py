"""CALM's Algorithm 1: the number m of views and their size l (docs/methods/calm.md)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, comb, exp, floor

import numpy as np

from calmstream.estimators.domain import Attributes
from calmstream.estimators.numerics.covering import balanced, covering

MAX_VIEWS = 8192
MAX_WORK = 1 << 24
"""Maximum number of steps of one pass that makes tables consistent: views times cells times subsets
of a view, for l > 2. With bits it leaves at most 256 views of 8 attributes, 64 of 9 and 16 of 10:
with theta = 0.001 it binds from 256,000, 64,000 and 16,000 users. Then views are smaller or fewer
than Algorithm 1 requires."""


def mean_cells(cardinalities: Sequence[int], l: int) -> float:  # noqa: E741 - the paper's symbol
    """Return the mean number of cells of tables over l of the attributes, in O(d l)."""
    means = np.zeros(l + 1)
    means[0] = 1.0
    # The recursion is over the first t attributes: a random subset of size s of them contains the
    # last one with probability s / t. Means, unlike sums, cannot overflow.
    for t, r in enumerate(cardinalities, start=1):
        s = np.arange(1, l + 1)
        hold = np.minimum(s / t, 1.0)
        means[1:] = hold * r * means[:-1] + (1.0 - hold) * means[1:]
    return float(means[l])


def noise_error(n: float, cardinalities: Sequence[int], epsilon: float, l: int) -> float:  # noqa: E741
    """Return NE, CALM's squared error by noise, per attribute of a marginal.

    ``min(4e, L - 2 + e) / (e - 1)² · L / l · d / n`` with e = exp(epsilon), L of `mean_cells`.
    """
    e, cells = exp(epsilon), mean_cells(cardinalities, l)
    leading = min(4.0 * e, cells - 2.0 + e) / (e - 1.0) ** 2
    return leading * cells / l * len(cardinalities) / n


def largest_size(
    n: float, cardinalities: Sequence[int], epsilon: float, k: int, theta: float
) -> int:
    """Return l_u, the largest l up to which k·NE <= theta holds for all l from 3 on.

    It is at least 2 (or d, if that is smaller), and such that there are enough affordable views.
    """
    d = len(cardinalities)
    size = min(2, d)
    while size < d and k * noise_error(n, cardinalities, epsilon, size + 1) <= theta:
        if affordable_views(cardinalities, size + 1) < ceil(d / (size + 1)):
            break
        size += 1
    return size


def affordable_views(cardinalities: Sequence[int], l: int) -> int:  # noqa: E741
    """Return the maximum number of views by ``MAX_VIEWS`` and, if l > 2, by ``MAX_WORK``."""
    if l <= 2:
        return MAX_VIEWS
    return int(min(MAX_VIEWS, MAX_WORK / (mean_cells(cardinalities, l) * 2**l)))


@dataclass(frozen=True, slots=True)
class Size:
    """The outcome of Algorithm 1."""

    views: tuple[Attributes, ...]
    noise: float
    sampling: float
    complete: bool  # whether every set of k attributes is in some view

    @property
    def m(self) -> int:
        return len(self.views)

    @property
    def l(self) -> int:  # noqa: E743 - the paper's symbol
        return len(self.views[0])


def algorithm_1(n: int, cardinalities: Sequence[int], epsilon: float, k: int, theta: float) -> Size:
    """Choose the views by Algorithm 1 of CALM.

    It differs from the paper in three points. A covering design of affordable size is also used if
    no smaller l is possible, m is large enough for every attribute to be in some view, and there
    are at most `affordable_views`.
    """
    d = len(cardinalities)
    l_u = largest_size(n, cardinalities, epsilon, k, theta)

    def m_u(l: int) -> int:  # noqa: E741
        return min(floor(theta * n + 1e-9), affordable_views(cardinalities, l))

    def cover(l: int) -> tuple[Attributes, ...] | None:  # noqa: E741
        return covering(d, k, l, m_u(l))

    def size(views: tuple[Attributes, ...], complete: bool) -> Size:
        noise = k * noise_error(n, cardinalities, epsilon, len(views[0]))
        return Size(views, noise, len(views) / n, complete)

    l_b = l_u
    while l_b > k and cover(l_b - 1) is not None:
        l_b -= 1

    covers = [cover(tried) for tried in range(max(l_b, k), l_u + 1)]
    sizes = [size(views, complete=True) for views in covers if views]
    if sizes:
        return min(sizes, key=lambda s: max(s.sampling, s.noise))
    m = max(ceil(d / l_u), min(m_u(l_u), comb(d, l_u)))
    return size(balanced(d, l_u, m), complete=False)
