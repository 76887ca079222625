"""Draws from scores, and the normal distribution without scipy."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_LEAST_CHANCE = 2.0**-53
"""The generator's step: 0, which has no logarithm, is taken for it."""

_ERF = (0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429)


def choose(random: np.random.Generator, score: Floats, axis: int = -1) -> NDArray[np.intp]:
    """Indices along an axis, each with probability proportional to exp(score).

    The largest score wins after Gumbel noise, ``-log(-log(1 - x))`` of even x: what the generator's
    own ``gumbel`` is, in a third of its time, as numpy takes logarithms of arrays faster.
    """
    noise = np.maximum(random.random(size=score.shape), _LEAST_CHANCE)
    np.log(np.subtract(1.0, noise, out=noise), out=noise)
    np.log(np.negative(noise, out=noise), out=noise)
    chosen: NDArray[np.intp] = (score - noise).argmax(axis=axis)
    return chosen


def erf(x: Floats) -> Floats:
    """Error function to 1.5e-7 (Abramowitz and Stegun 7.1.26)."""
    size = np.abs(x)
    t = 1.0 / (1.0 + 0.3275911 * size)
    series = np.zeros_like(t)
    for coefficient in reversed(_ERF):
        series = (series + coefficient) * t
    return np.asarray(np.sign(x) * (1.0 - series * np.exp(-size * size)), np.float64)


def truncated(mean: Floats, deviation: Floats, low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """Mean and variance of a normal variable given that it lies in [low, high].

    Where it hardly can, the nearer end and 0. All of one shape; ``low <= high``; deviations are
    above 0.
    """
    a, b = (low - mean) / deviation, (high - mean) / deviation
    mass = 0.5 * (erf(b / np.sqrt(2.0)) - erf(a / np.sqrt(2.0)))
    inside = mass > 1e-4  # below it the approximation of erf is no longer exact enough
    safe = np.where(inside, mass, 1.0)
    at_a, at_b = _density(a) / safe, _density(b) / safe
    moved = at_a - at_b
    # At an end far away the density is 0, whatever it is multiplied by.
    edge = np.clip(a, -40.0, 40.0) * at_a - np.clip(b, -40.0, 40.0) * at_b
    centre = np.clip(np.where(inside, mean + deviation * moved, mean), low, high)
    spread = np.square(deviation) * np.clip(1.0 + edge - np.square(moved), 0.0, 1.0)
    return centre, np.where(inside, spread, 0.0)


def _density(x: Floats) -> Floats:
    return np.asarray(np.exp(-0.5 * x * x) / np.sqrt(2.0 * np.pi), np.float64)
