"""P-values from simulated counts, where counts are too small for the far tail of chi-square.

Both sides are drawn from one common table, the pooled estimate, and their estimates are weighted as
those of the data. The weights depend on the side with many reports, which hardly varies. Counts
that are large on one side are drawn from the normal distribution, which costs little.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import exp

import numpy as np

from calmstream.estimators.changes.basis import Floats
from calmstream.estimators.changes.evidence import inverse
from calmstream.estimators.changes.fit import Fit
from calmstream.estimators.changes.homogeneity import Homogeneity
from calmstream.estimators.changes.readings import Reading
from calmstream.estimators.mechanisms.covariance import spread_evenly
from calmstream.estimators.numerics.simplex import project

SMALL = 40.0
"""Least expected count below which the far tail of chi-square is too light."""

UNEVEN = 4.0
"""Ratio of the sides' reports from which that matters."""

BODY = 0.05
"""Above this p-value chi-square is accurate, and nothing is drawn."""

STEP, MOST = 500, 5_500
"""Draws made at once, and maximum number of draws."""

ENOUGH = 20
"""Number of draws above the statistic that settle its p-value (Besag and Clifford 1991)."""

FAR = 1e-8
"""A p-value below this is settled by the first draws: no decision depends on its exact value."""

MAX_CELLS = 1 << 14
"""Maximum number of cells of a view that is drawn."""

Noise = Callable[[np.random.Generator, int], Floats]
"""Draws so many estimates of a view's coefficients, minus their mean: shape (draws, m)."""

Source = tuple[Floats, Noise]
"""A view of one side: its part in the statistic's root, shape (m, freedom), and its noise."""

_CHUNK = 1 << 20
_TAIL = 0.02


def needed(readings: Sequence[Reading]) -> bool:
    """Return whether the chi-square distribution is too light in its far tail."""
    return any(one.least < SMALL and one.ratio > UNEVEN for one in readings)


def possible(readings: Sequence[Reading]) -> bool:
    """Return whether all views are small enough to be drawn."""
    return all(one.own.mechanism.cells <= MAX_CELLS for one in readings)


def p_value(
    test: Homogeneity,
    fits: tuple[Fit, Fit],
    readings: tuple[Sequence[Reading], Sequence[Reading]],
    theta: Floats,
    seed: Sequence[int],
) -> float:
    """Return the probability of at least the statistic if both sides have the same table.

    Draws are made in steps until enough of them exceed the statistic. Beyond the draws the tail is
    taken to be exponential, with the mean excess of the largest draws.

    Cost: one step where the p-value is large or tiny, eleven where it is between FAR and 0.004. A
    step draws every report of the small side.
    """
    generator = np.random.default_rng(list(seed))
    sources = _sources(test, fits, readings, theta)
    drawn = np.empty(0)
    while True:
        step = _draw(sources, generator, STEP)
        drawn = np.concatenate([drawn, step])
        above = int((drawn >= test.statistic).sum())
        if above >= ENOUGH:
            return (above + 1) / (len(drawn) + 1)
        beyond = _beyond(drawn, test.statistic)
        if len(drawn) >= MOST or beyond < FAR:
            return beyond


def _beyond(drawn: Floats, statistic: float) -> float:
    """Return the probability of at least the statistic, by an exponential tail."""
    largest = np.sort(drawn)[-int(_TAIL * len(drawn)) :]
    start = float(largest[0])
    excess = float((largest - start).mean())
    return max(_TAIL * exp(-(statistic - start) / excess), 1e-300)


def _sources(
    test: Homogeneity,
    fits: tuple[Fit, Fit],
    readings: tuple[Sequence[Reading], Sequence[Reading]],
    theta: Floats,
) -> list[Source]:
    """Return what every step draws from, in the order in which it does."""
    return [
        (sign * (test.root @ gain).T, _noise(one, one.evidence.expected(theta)))
        for sign, fit, side in zip((1.0, -1.0), fits, readings, strict=True)
        for gain, one in zip(fit.gains, side, strict=True)
    ]


def _draw(sources: Sequence[Source], generator: np.random.Generator, draws: int) -> Floats:
    """Return statistics of simulated counts: shape (draws,)."""
    delta = np.add.reduce([noise(generator, draws) @ weight for weight, noise in sources])
    return np.asarray(np.square(delta).sum(axis=1))


def _noise(one: Reading, mean: Floats) -> Noise:
    """Return what draws estimates of a view's coefficients, minus their mean."""
    own, part = one.own, one.part
    table = project(((1.0 + part.basis @ mean) / part.cells)[None])[0]
    if own.mechanism.rarest(table, part.shape, part.axes) * own.n >= SMALL:
        return _normal(inverse(one.evidence.precision))
    # A device that reports several times counts as one report, which is cautious.
    n = max(round(own.n / own.repeats), 1)
    cells = spread_evenly(table, part.shape, part.axes)
    slope, offset = _linear(one, n)
    step = max(1, _CHUNK // (own.mechanism.width + own.mechanism.cells))

    def noise(generator: np.random.Generator, draws: int) -> Floats:
        out = np.empty((draws, len(offset)))
        for start in range(0, draws, step):
            count = min(step, draws - start)
            histograms = generator.multinomial(n, cells / cells.sum(), size=count)
            tallies = own.mechanism.draw_tallies(histograms, generator)
            out[start : start + count] = tallies @ slope + offset
        return np.asarray(out - out.mean(axis=0))

    return noise


def _normal(covariance: Floats) -> Noise:
    """Return what draws from a normal distribution, for a side whose counts are large."""
    values, vectors = np.linalg.eigh(covariance)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    return lambda generator, draws: generator.standard_normal((draws, len(values))) @ root.T


def _linear(one: Reading, n: int) -> tuple[Floats, Floats]:
    """Return slope and offset of the coefficients as a function of the counters."""
    own, part = one.own, one.part
    mechanism, width = own.mechanism, own.mechanism.width
    zero = np.zeros(width, np.int64)
    offset = part.basis.T @ mechanism.table(zero, n, part.shape, part.axes)
    slope = np.empty((width, len(offset)))
    for counter in range(width):
        # Some mechanisms halve sums of counters, so that two is the smallest step.
        zero[counter] = 2
        slope[counter] = part.basis.T @ mechanism.table(zero, n, part.shape, part.axes) - offset
        zero[counter] = 0
    return slope / 2.0, offset
