"""Draws by log probabilities, and truncated normal variables (without scipy)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]


def choose(random: np.random.Generator, score: Floats, axis: int = -1) -> Indices:
    """Draw indices along an axis, each with probability proportional to exp(score).

    Gumbel noise ``-log(-log(1 - x))`` of uniform x is added to each score; the largest sum is
    drawn. The noise is that of numpy's ``gumbel``, in a third of its time.
    """
    step = 2.0**-53  # smallest step of the generator, in place of 0, which has no logarithm
    noise = np.maximum(random.random(size=score.shape), step)
    np.log(np.subtract(1.0, noise, out=noise), out=noise)
    np.log(np.negative(noise, out=noise), out=noise)
    chosen: Indices = (score - noise).argmax(axis=axis)
    return chosen


def erf(x: Floats) -> Floats:
    """Return the error function to 1.5e-7 (Abramowitz and Stegun 7.1.26)."""
    size = np.abs(x)
    t = 1.0 / (1.0 + 0.3275911 * size)
    series = np.zeros_like(t)
    for coefficient in (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592):
        series = (series + coefficient) * t
    return np.asarray(np.sign(x) * (1.0 - series * np.exp(-size * size)), np.float64)


def truncated(mean: Floats, deviation: Floats, low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """Return mean and variance of a normal variable given that it lies in [low, high].

    Where the probability of that is below 1e-4, they are the nearer end and 0. All arguments have
    the same shape, deviations are positive and ``low <= high``.
    """
    a, b = (low - mean) / deviation, (high - mean) / deviation
    mass = 0.5 * (erf(b / np.sqrt(2.0)) - erf(a / np.sqrt(2.0)))
    inside = mass > 1e-4  # below it `erf` is not exact enough
    safe = np.where(inside, mass, 1.0)
    at_a, at_b = _density(a) / safe, _density(b) / safe
    moved = at_a - at_b
    # The density at a far end is 0, whatever its factor is.
    edge = np.clip(a, -40.0, 40.0) * at_a - np.clip(b, -40.0, 40.0) * at_b
    centre = np.clip(np.where(inside, mean + deviation * moved, mean), low, high)
    spread = np.square(deviation) * np.clip(1.0 + edge - np.square(moved), 0.0, 1.0)
    return centre, np.where(inside, spread, 0.0)


def _density(x: Floats) -> Floats:
    return np.asarray(np.exp(-0.5 * x * x) / np.sqrt(2.0 * np.pi), np.float64)
