"""Maximum likelihood of a small table whose attributes were randomised one by one (InpEM).

The observed table is ``m = P pi`` plus noise, where P is the product of the attributes' randomised
responses; the log-likelihood of pi is concave. Three rules stop before its maximum:
expectation-maximisation until no cell changes (Cormode et al., after Fanti et al. 2016), or
Newton's method with a logarithmic barrier until the log-likelihood can grow only negligibly, or
until the table fits the reports as well as the true one is expected to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from calmstream.estimators.arrays import Floats
from calmstream.estimators.numerics.block_inverse import AxisChannel, mix, unmix

CHANGE = 1e-5  # the paper's Omega: expectation-maximisation stops when no cell changes by more
MAX_STEPS = 100_000
GAIN = 0.01
"""Newton's method stops when the log-likelihood of all reports can grow by at most this much."""

MAX_NEWTON = 200
_BOUNDARY = 0.95  # share of the way to the nearest zero cell that a step goes at most
_SHRINK = 0.5  # factor of the barrier's weight from one maximum to the next
_CENTRED = 0.1
"""A table counts as the maximum under a barrier if the next step promises less than this share of
the gain that the barrier costs."""

_SHORTEST_STEP = 1e-12  # length of a damped step below which it is not halved any more


def expectation_maximisation(observed: Floats, factors: Sequence[AxisChannel]) -> Floats:
    """Iterate from the uniform table until no cell changes by more than 1e-5.

    For a small epsilon per attribute the first step changes no cell by more than that: the result
    is nearly uniform, whatever the true one. The paper's Table 3 counts such failures.
    """
    guess = np.full(observed.shape, 1.0 / observed.size)
    for _ in range(MAX_STEPS):
        before, guess = guess, guess * mix(observed / mix(guess, factors), factors)
        if np.abs(guess - before).max() < CHANGE:
            break
    return guess


def barrier(observed: Floats, factors: Sequence[AxisChannel], n: int) -> Floats:
    """Maximise the log-likelihood of the n reports, up to a certified difference of 0.01.

    If the unbiased inverse has no negative cell, it is the maximum. Otherwise Newton's method
    maximises ``mean log-likelihood + mu sum log pi`` for decreasing mu, where the log-likelihood
    can grow by at most ``n · cells · mu``. Cost: tens of steps of O(cells^3).
    """
    raw = unmix(observed, factors)
    if raw.min() >= 0.0:
        return np.asarray(raw / raw.sum())
    return _central_path(observed, factors, n, 0.0)


def discrepancy(observed: Floats, factors: Sequence[AxisChannel], n: int) -> Floats:
    """Return the smoothest table that fits the reports about as well as the true table.

    The maxima of `barrier` for decreasing mu lead from the uniform table to the most likely one,
    which fits the noise too. The first one counts whose deviance is at most the median of that of
    the true table (Morozov's discrepancy principle). The deviance, twice the log-likelihood that
    unrestricted frequencies would gain, is chi-square with ``cells - 1`` degrees of freedom.
    """
    freedom = observed.size - 1
    # The median of chi-square by the approximation of Wilson and Hilferty.
    return _central_path(observed, factors, n, freedom * (1.0 - 2.0 / (9.0 * freedom)) ** 3)


def _central_path(
    observed: Floats, factors: Sequence[AxisChannel], n: int, deviance: float
) -> Floats:
    """Follow the maxima for decreasing mu until the deviance is small enough or mu is minimal."""
    cells, shape = observed.size, observed.shape
    shifted = [replace(f, axes=tuple(a + 1 for a in f.axes)) for f in factors]
    matrix = mix(np.eye(cells).reshape(cells, *shape), shifted).reshape(cells, cells)
    seen = observed.ravel()
    best = float((seen[seen > 0.0] * np.log(seen[seen > 0.0])).sum())
    table = np.full(cells, 1.0 / cells)
    mu, least = 1.0 / cells, GAIN / (n * cells)
    for _ in range(MAX_NEWTON):
        table, promised = _newton(table, seen, matrix, mu)
        if promised < _CENTRED * cells * mu:
            missing = best - float(seen @ np.log(matrix @ table))
            if mu <= least or 2.0 * n * missing <= deviance:
                break
            mu = max(mu * _SHRINK, least)
    return table.reshape(shape)


def _newton(table: Floats, seen: Floats, matrix: Floats, mu: float) -> tuple[Floats, float]:
    """Make one damped Newton step on distributions (cells,); ``matrix`` is P."""
    mixed = matrix @ table
    slope = matrix @ (seen / mixed) + mu / table
    curvature = (matrix * (seen / mixed**2)) @ matrix + np.diag(mu / table**2)
    ways = np.linalg.solve(curvature, np.stack([slope, np.ones_like(slope)], axis=1))
    step = ways[:, 0] - ways[:, 1] * (ways[:, 0].sum() / ways[:, 1].sum())
    promised = float(step @ curvature @ step)
    falling = step < 0.0
    length = 1.0
    if falling.any():
        length = min(1.0, _BOUNDARY * float((table[falling] / -step[falling]).min()))
    before = _value(table, seen, matrix, mu)
    while length > _SHORTEST_STEP and _value(table + length * step, seen, matrix, mu) < before:
        length /= 2.0
    moved = table + length * step
    return moved / moved.sum(), promised


def _value(table: Floats, seen: Floats, matrix: Floats, mu: float) -> float:
    """Return the mean log-likelihood of a table plus the barrier."""
    return float(seen @ np.log(matrix @ table) + mu * np.log(table).sum())
