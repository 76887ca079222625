"""Maximum likelihood of a small table whose attributes were randomised one by one (InpEM).

The observed table is ``m = P pi`` plus noise, P the product of the axes' randomised responses. The
likelihood of a distribution pi is concave. There are three rules to stop before its maximum:
expectation-maximisation until no cell changes (Cormode et al., after Fanti et al. 2016); Newton's
method under a logarithmic barrier until the gain that is left is negligible, or until the table
explains the reports as well as the truth would.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from estimators.numerics.block_inverse import unmix

if TYPE_CHECKING:
    from collections.abc import Sequence

    from estimators.numerics.block_inverse import AxisChannel

Floats = NDArray[np.float64]

CHANGE = 1e-5
"""The paper's Omega: stop when no cell of the guess changes by more."""

MAX_STEPS = 100_000
"""Most steps of expectation-maximisation."""

GAIN = 0.01
"""Log-likelihood of all reports together that may be left to gain."""

MAX_NEWTON = 200
_BOUNDARY = 0.95
_SHRINK = 0.5


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """A maximum-likelihood table.

    Attributes:
        table: shape of the observed table, non-negative, sum 1.
        steps: taken; 1 means that the start was almost the result.
    """

    table: Floats
    steps: int


def _mix(table: Floats, factors: Sequence[AxisChannel]) -> Floats:
    """Apply P, which is symmetric on every axis."""
    out = table
    for f in factors:
        out = f.gap * out + f.q * out.sum(axis=f.axes, keepdims=True)
    return out


def expectation_maximisation(observed: Floats, factors: Sequence[AxisChannel]) -> Fit:
    """Iterate from the uniform table until no cell changes by more than 1e-5.

    For a small epsilon per attribute the very first step is that small: the result is the uniform
    table, however far from the truth. The paper's Table 3 counts these failures.

    Args:
        observed: frequencies of randomised records, sum 1.
        factors: one channel per axis.

    Cost: O(steps · axes · cells), at most 100,000 steps.
    """
    guess = np.full(observed.shape, 1.0 / observed.size)
    steps = 0
    while steps < MAX_STEPS:
        steps += 1
        ratio = observed / _mix(guess, factors)
        updated = guess * _mix(ratio, factors)
        change = float(np.abs(updated - guess).max())
        guess = updated
        if change < CHANGE:
            break
    return Fit(guess, steps)


def barrier(observed: Floats, factors: Sequence[AxisChannel], n: int) -> Fit:
    """Maximise the log-likelihood of the n reports to within 0.01, certified.

    A non-negative castell inverse is the maximum itself. Otherwise Newton's method maximises
    ``mean log-likelihood + mu sum log pi`` for falling mu; at such a maximum at most ``n · cells ·
    mu`` is left to gain, whatever epsilon, n and the table's size: that is the stop rule.

    Args:
        observed: frequencies of randomised records, sum 1.
        factors: one channel per axis.
        n: reports, at least 1.

    Cost: tens of steps of O(cells^3).
    """
    raw = unmix(observed, factors)
    if raw.min() >= 0.0:
        return Fit(raw / raw.sum(), 0)
    return _central_path(observed, factors, n, 0.0)


def discrepancy(observed: Floats, factors: Sequence[AxisChannel], n: int) -> Fit:
    """Return the smoothest table that explains the reports about as well as the truth.

    The most likely table fits the noise too. Of the tables on the way from uniform to it (the
    maxima of `barrier` for falling mu) this is the first whose deviance, twice the log-likelihood
    that a free choice of frequencies would gain, is at most the median of the chi-square with
    ``cells - 1`` degrees of freedom, which is the distribution of the deviance of the true table
    (Morozov's discrepancy principle). If no table reaches that, the result is the most likely one.

    Args, cost: as `barrier`.
    """
    freedom = observed.size - 1
    return _central_path(observed, factors, n, freedom * (1.0 - 2.0 / (9.0 * freedom)) ** 3)


def _central_path(observed: Floats, factors: Sequence[AxisChannel], n: int, deviance: float) -> Fit:
    """Follow the maxima under a falling barrier to the deviance or the certificate."""
    cells, shape = observed.size, observed.shape
    matrix = _mix(np.eye(cells).reshape(cells, *shape), _shifted(factors)).reshape(cells, cells)
    seen = observed.ravel()
    best = float((seen[seen > 0.0] * np.log(seen[seen > 0.0])).sum())
    table = np.full(cells, 1.0 / cells)
    mu, least = 1.0 / cells, GAIN / (n * cells)
    steps = 0
    while steps < MAX_NEWTON:
        steps += 1
        table, promised = _newton(table, seen, matrix, mu)
        if promised < 0.1 * cells * mu:
            missing = best - float(seen @ np.log(matrix @ table))
            if mu <= least or 2.0 * n * missing <= deviance:
                break
            mu = max(mu * _SHRINK, least)
    return Fit(table.reshape(shape), steps)


def _newton(table: Floats, seen: Floats, matrix: Floats, mu: float) -> tuple[Floats, float]:
    """Make one damped step on the simplex; also return the gain by the quadratic model."""
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
    while length > 1e-12 and _value(table + length * step, seen, matrix, mu) < before:
        length /= 2.0
    moved = table + length * step
    return moved / moved.sum(), promised


def _value(table: Floats, seen: Floats, matrix: Floats, mu: float) -> float:
    return float(seen @ np.log(matrix @ table) + mu * np.log(table).sum())


def _shifted(factors: Sequence[AxisChannel]) -> list[AxisChannel]:
    """Return the same channels on tables that have one more axis in front."""
    return [type(f)(tuple(a + 1 for a in f.axes), f.cells, f.gap, f.q) for f in factors]
